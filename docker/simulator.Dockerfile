# The reference simulator: one seeded payments world over HTTP, without the server.
#
#   docker build -f docker/simulator.Dockerfile -t evalhub-simulator:0.1.0 .
ARG PYTHON_IMAGE=python:3.11-slim-trixie

FROM ${PYTHON_IMAGE} AS environment
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements/runner.txt requirements/server.txt /build/requirements/
# The tools that build the wheel are pinned too, and stay in this stage.
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --require-hashes --only-binary=:all: -r /build/requirements/server.txt
COPY pyproject.toml README.md LICENSE /build/
COPY evalhub /build/evalhub
RUN cd /build && /opt/build/bin/python -m hatchling build -t wheel -d /build/dist
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --require-hashes --only-binary=:all: -r /build/requirements/runner.txt \
    && /opt/venv/bin/pip install --no-deps --no-index /build/dist/*.whl \
    && /opt/venv/bin/pip uninstall --yes pip

FROM ${PYTHON_IMAGE} AS simulator
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="evalhub-simulator" \
    org.opencontainers.image.description="A small stateful payments world over HTTP, seeded, for agents under test." \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"
RUN groupadd --gid 10001 evalhub \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin evalhub
COPY --from=environment /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp
WORKDIR /tmp
USER 10001:10001
EXPOSE 8321
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import socket; socket.create_connection(('127.0.0.1', 8321), 2).close()"]
CMD ["evalhub", "simulator", "serve", "--host", "0.0.0.0", "--port", "8321", "--seed", "1"]
