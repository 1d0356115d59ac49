"""Every setting, read once, here. README.md has the table; a test compares the two."""

import secrets
from pathlib import Path
from typing import Any

from django.utils.functional import SimpleLazyObject

from evalhub.environment import (
    SettingError,
    env_bool,
    env_broker,
    env_choice,
    env_database,
    env_int,
    env_list,
    env_mail_server,
    env_secret,
    env_text,
)
from evalhub.supervisor.listener import DEFAULT_BIND

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env_text("EVALHUB_DATA", str(BASE_DIR / "data" / "up"))).absolute()


def _kept_secret() -> str:
    """Return the secret key of this data directory; make it when the directory is first used."""
    path = DATA_DIR / "secret_key"
    if not path.exists():
        DATA_DIR.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"secret_key.{secrets.token_hex(4)}")
        fresh.touch(mode=0o600)
        fresh.write_text(secrets.token_urlsafe(50))
        try:
            # Two processes may start at once: the first link wins, both read it.
            path.hardlink_to(fresh)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_text()


# Lazy: a command that is refused (a taken port, a typo) leaves no data directory behind.
SECRET_KEY = env_secret("EVALHUB_SECRET_KEY") or SimpleLazyObject(_kept_secret)
DEBUG = env_bool("EVALHUB_DEBUG", default=False)
# `up` leaves its address here, so that commands beside it print links that lead to it.
ADDRESS_FILE = DATA_DIR / "run" / "address"
PUBLIC_URL = env_text(
    "EVALHUB_PUBLIC_URL",
    ADDRESS_FILE.read_text() if ADDRESS_FILE.exists() else "http://127.0.0.1:8123",
).rstrip("/")
ALLOWED_HOSTS = env_list("EVALHUB_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]
BEHIND_TLS = PUBLIC_URL.startswith("https://")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS
BIND = env_text("EVALHUB_BIND", DEFAULT_BIND)
WEB_THREADS = env_int("EVALHUB_WEB_THREADS", 32, least=1)
WORKER_CONCURRENCY = env_int("EVALHUB_WORKER_CONCURRENCY", 4, least=1)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_TLS else None

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "rest_framework",
    "evalhub.tasks",
    "evalhub.web",
    "evalhub.supervisor",
    "evalhub.backup",
    "evalhub.demo",
    "evalhub.growth",
    "evalhub.doctor",
    "lanes.projects",
    "lanes.budget",
    "lanes.plans",
    "lanes.fidelity",
    "evidence.store",
    "evidence.reader",
    "gates.verdicts",
    "gates.decisions",
    "gates.checks",
    "gates.overview",
]
MIDDLEWARE = [
    "evalhub.web.middleware.RequestTrailMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "evalhub.web.middleware.SecurityHeadersMiddleware",
    "evalhub.web.middleware.SoundRequestMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "evalhub.web.middleware.DomainErrorMiddleware",
]
ROOT_URLCONF = "evalhub.urls"
WSGI_APPLICATION = "evalhub.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "builtins": ["evalhub.web.templatetags.formatting"],
            "libraries": {"formatting": "evalhub.web.templatetags.formatting"},
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "evalhub.web.context.worker_trouble",
                "evalhub.web.context.github_sign_in",
                "lanes.projects.presentation.open_notices",
            ],
        },
    }
]

_SQLITE = {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": DATA_DIR / "evalhub.sqlite3",
    "CONN_MAX_AGE": 600,
    "OPTIONS": {
        "timeout": 20,
        # Deferred transactions that turn into writers fail at once with "database is locked".
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
    },
}
POSTGRES_BIN = env_text("EVALHUB_POSTGRES_BIN", "") or None
DATABASES: dict[str, dict[str, Any]] = {"default": env_database("DATABASE_URL") or _SQLITE}
# None where the database is a server: then its disk and its file are no concern of this machine.
DATABASE_FILE = (
    Path(DATABASES["default"]["NAME"])
    if DATABASES["default"]["ENGINE"].endswith("sqlite3")
    else None
)

AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "sign-in"
SESSION_COOKIE_NAME = "evalhub_session"
CSRF_COOKIE_NAME = "evalhub_csrf"

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

STATIC_URL = "/static/"
STATIC_ROOT = Path(env_text("EVALHUB_STATIC", str(DATA_DIR / "static"))).absolute()
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "evalhub.web.static_finders.PlotlyFinder",
]
STORAGES = {
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["lanes.projects.authentication.TokenAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "EXCEPTION_HANDLER": "evalhub.web.errors.problem_response",
    "UNAUTHENTICATED_USER": None,
}
# The largest document is a plan with tens of thousands of run keys; segments are streamed past this.
DATA_UPLOAD_MAX_MEMORY_SIZE = 32 * 2**20

OBJECTS_DIR = DATA_DIR / "objects"
S3_BUCKET = env_text("EVALHUB_S3_BUCKET", "")
S3_ENDPOINT_URL = env_text("EVALHUB_S3_ENDPOINT_URL", "") or None
S3_REGION = env_text("EVALHUB_S3_REGION", "us-east-1")
S3_ACCESS_KEY_ID = env_secret("EVALHUB_S3_ACCESS_KEY_ID")
S3_SECRET_ACCESS_KEY = env_secret("EVALHUB_S3_SECRET_ACCESS_KEY")

# For projects that say nothing themselves; 0 keeps for good.
BULK_DAYS = env_int("EVALHUB_BULK_DAYS", 400, least=0, most=36_500)
SEGMENT_BYTES = env_int("EVALHUB_SEGMENT_BYTES", 16 * 2**20, least=2**16)
IMPORT_BYTES = env_int("EVALHUB_IMPORT_BYTES", 2**30, least=2**16)
FLUSH_SECONDS = env_int("EVALHUB_FLUSH_SECONDS", 5, least=1)
HEARTBEAT_SECONDS = env_int("EVALHUB_HEARTBEAT_SECONDS", 30, least=1)
LANE_TOKEN_SECONDS = env_int("EVALHUB_LANE_TOKEN_SECONDS", 24 * 3600, least=60)

# What CI identities must be issued by and for, and how many exchanges an address or a repository
# may ask for in a minute: a matrix of 256 lanes begins at once.
OIDC_ISSUER = env_text("EVALHUB_OIDC_ISSUER", "https://token.actions.githubusercontent.com")
OIDC_AUDIENCE = env_text("EVALHUB_OIDC_AUDIENCE", PUBLIC_URL)
TOKEN_REQUESTS = env_int("EVALHUB_TOKEN_REQUESTS", 600, least=1)
# The longest life that a maintainer can give a token; ten years stand for "as good as none".
TOKEN_DAYS = env_int("EVALHUB_TOKEN_DAYS", 365, least=1, most=3650)
# How often a minute a password may be tried for one name; for one address five times as often.
SIGN_IN_REQUESTS = env_int("EVALHUB_SIGN_IN_REQUESTS", 10, least=1)
PROXIES = env_int("EVALHUB_PROXIES", 0, least=0, most=10)

GITHUB_API_URL = env_text("EVALHUB_GITHUB_API_URL", "https://api.github.com").rstrip("/")
GITHUB_TOKEN = env_secret("EVALHUB_GITHUB_TOKEN")

# People sign in with GitHub where it knows this server as an OAuth app.
GITHUB_URL = env_text("EVALHUB_GITHUB_URL", "https://github.com").rstrip("/")
_GITHUB_CLIENT_ID = env_text("EVALHUB_GITHUB_OAUTH_CLIENT_ID", "")
_GITHUB_CLIENT_SECRET = env_secret("EVALHUB_GITHUB_OAUTH_CLIENT_SECRET")
GITHUB_SIGN_IN = bool(_GITHUB_CLIENT_ID)
if GITHUB_SIGN_IN and not _GITHUB_CLIENT_SECRET:
    raise SettingError(
        "EVALHUB_GITHUB_OAUTH_CLIENT_ID",
        "is set, but EVALHUB_GITHUB_OAUTH_CLIENT_SECRET is not: give both or none.",
    )
if GITHUB_SIGN_IN:
    INSTALLED_APPS += [
        "allauth",
        "allauth.account",
        "allauth.socialaccount",
        "allauth.socialaccount.providers.github",
    ]
    MIDDLEWARE += ["allauth.account.middleware.AccountMiddleware"]
    SOCIALACCOUNT_ADAPTER = "lanes.projects.views.github.GitHubAdapter"
    ACCOUNT_ADAPTER = "lanes.projects.views.github.SilentAdapter"
    # Nothing is known by an e-mail address: it changes hands.
    ACCOUNT_EMAIL_VERIFICATION = "none"
    ACCOUNT_SIGNUP_FIELDS = ["username*"]
    ACCOUNT_LOGIN_METHODS = {"username"}
    # Sign-in has its own limits, in the database (lanes/projects/operations/sign_in.py).
    ACCOUNT_RATE_LIMITS = False
    SOCIALACCOUNT_PROVIDERS = {
        "github": {
            "APPS": [{"client_id": _GITHUB_CLIENT_ID, "secret": _GITHUB_CLIENT_SECRET, "key": ""}],
            "OAUTH_PKCE_ENABLED": True,
            # Its API is asked at another host than Enterprise's, which has it below its own address.
            **({} if GITHUB_URL == "https://github.com" else {"GITHUB_URL": GITHUB_URL}),
        }
    }

_MAIL = env_mail_server("EVALHUB_EMAIL_URL")
EMAIL_HOST, EMAIL_PORT = _MAIL.host, _MAIL.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _MAIL.user, _MAIL.password
EMAIL_USE_SSL, EMAIL_USE_TLS = _MAIL.scheme == "smtps", _MAIL.scheme == "smtp+starttls"
EMAIL_TIMEOUT = 20
DEFAULT_FROM_EMAIL = env_text("EVALHUB_EMAIL_FROM", "evalhub@localhost")
WEBHOOK_HOSTS = env_list("EVALHUB_WEBHOOK_HOSTS", "")

CELERY_BROKER_URL = env_broker("CELERY_BROKER_URL") or f"redis+socket://{DATA_DIR}/run/redis.sock"
SWEEP_SECONDS = env_int("EVALHUB_SWEEP_SECONDS", 10, least=1)
METRICS_TOKEN = env_secret("EVALHUB_METRICS_TOKEN")
# Some sweeps may be missed; without any for this long nobody does the work, and pages say so.
WORKER_SILENT_SECONDS = max(60, 6 * SWEEP_SECONDS)

LOG_LEVEL = env_choice("EVALHUB_LOG_LEVEL", "INFO", among=("DEBUG", "INFO", "WARNING", "ERROR"))
LOG_FORMAT = env_choice("EVALHUB_LOG_FORMAT", "line", among=("line", "json"))
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"()": "evalhub.web.logs.LineFormatter"},
        "json": {"()": "evalhub.web.logs.JsonFormatter"},
    },
    "filters": {"foreseen": {"()": "evalhub.web.logs.Foreseen"}},
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": LOG_FORMAT,
            "filters": ["foreseen"],
        }
    },
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        # Their own handlers would write each line a second time, in a form of their own.
        "django": {"handlers": []},
        "gunicorn.error": {"handlers": [], "level": LOG_LEVEL, "propagate": True},
        # Refusals are told by the line that every request gets (evalhub.access).
        "django.request": {"level": "ERROR"},
        # It names whole addresses, and those of webhooks are secrets.
        "httpx": {"level": "WARNING"},
    },
}
