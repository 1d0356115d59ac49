"""What a person types: to sign in, to make or change a channel, to trust a workflow."""

from collections.abc import Sequence

from django import forms

from evalhub.protocol.identity import PublisherSettings, TokenSettings
from evalhub.web.templatetags.formatting import words
from lanes.projects.models import ChannelKind, NoticeKind, Role, Scope
from lanes.projects.operations.channels import CHOSEN_KINDS
from lanes.projects.queries.audit import AREAS


class SignInForm(forms.Form):
    """Name and password; whether they fit is for the view to find out."""

    username = forms.CharField(
        label="Name",
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "username", "autofocus": True}),
    )
    password = forms.CharField(
        label="Password",
        max_length=1000,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )


class CarriedForm(forms.Form):
    """What a channel carries; all that can be changed of a rolling issue."""

    notices = forms.MultipleChoiceField(
        label="Notices",
        choices=[(kind.value, words(kind.value)) for kind in CHOSEN_KINDS],
        widget=forms.CheckboxSelectMultiple,
    )

    @property
    def notice_kinds(self) -> list[NoticeKind]:
        return [NoticeKind(value) for value in self.cleaned_data["notices"]]


class ChannelForm(CarriedForm):
    """A channel that is there: its name and kind stay."""

    field_order: Sequence[str] = ("target", "notices")
    target = forms.CharField(
        label="Where to",
        max_length=2000,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )


class SignedChannelForm(ChannelForm):
    """A channel whose messages are signed."""

    new_secret = forms.BooleanField(
        label="Make a new secret; the old one stops working at once", required=False
    )


class NewChannelForm(ChannelForm):
    """A new channel; whether its parts fit together is for the operation to find out."""

    field_order = ("name", "kind", "target", "notices")
    name = forms.CharField(label="Name", max_length=50)
    kind = forms.ChoiceField(label="Kind", choices=ChannelKind.choices)


_LARGEST_ID = 2**53 - 1
_MOST_REFS = 50


class PublisherForm(forms.Form):
    """A workflow to be trusted; whether its parts are sound is for the operation to find out."""

    repository_id = forms.IntegerField(
        label="Repository id",
        min_value=1,
        max_value=_LARGEST_ID,
        help_text="A number: its name may change hands.",
    )
    repository_owner_id = forms.IntegerField(label="Owner id", min_value=1, max_value=_LARGEST_ID)
    workflow = forms.CharField(
        label="Workflow", max_length=200, help_text=".github/workflows/evals.yml"
    )
    reusable_workflow = forms.CharField(
        label="Made of a reusable workflow",
        max_length=500,
        required=False,
        help_text="OWNER/REPO/.github/workflows/FILE.yml@REF, if its jobs call one.",
    )
    environment = forms.CharField(
        label="Environment", max_length=255, required=False, help_text="Empty: any, or none."
    )
    refs = forms.CharField(
        label="Refs",
        max_length=2000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="One a line: refs/heads/main, refs/pull/*/merge. Empty: every ref.",
    )
    may_put_documents = forms.BooleanField(
        label="May register suite and policy from the protected default branch", required=False
    )

    def clean_refs(self) -> list[str]:
        refs = [line.strip() for line in self.cleaned_data["refs"].splitlines() if line.strip()]
        if len(refs) > _MOST_REFS or any(len(ref) > 200 for ref in refs):
            raise forms.ValidationError(f"At most {_MOST_REFS} lines of 200 characters are taken.")
        return refs

    @property
    def settings(self) -> PublisherSettings:
        return PublisherSettings(**self.cleaned_data)


_SCOPES = {
    Scope.READ: "read pages' content: plans, runs, transcripts, conclusions",
    Scope.PLAN_REGISTER: "register plans and wait for what they mean",
    Scope.LANE_WRITE: "open lanes and send their evidence",
    Scope.DOCUMENT_WRITE: "register suite and policy",
    Scope.PROJECT_ADMIN: "all of that and everything that a maintainer may",
}


class TokenForm(forms.Form):
    """A token to be made; whether it may live so long is for the operation to find out."""

    name = forms.CharField(
        label="Name", max_length=100, help_text="For a person: who uses it, and where."
    )
    scopes = forms.MultipleChoiceField(
        label="What it may do",
        choices=[(scope.value, f"{scope.value}: {told}") for scope, told in _SCOPES.items()],
        widget=forms.CheckboxSelectMultiple,
    )
    days = forms.IntegerField(label="Days until it ends", min_value=1, max_value=3650)

    @property
    def settings(self) -> TokenSettings:
        return TokenSettings(**self.cleaned_data)


class InvitationForm(forms.Form):
    """Whom to invite as what, and for how long the link is good."""

    guest = forms.CharField(label="For whom", max_length=200)
    role = forms.ChoiceField(
        label="Role", choices=[(role.value, words(role.value)) for role in Role]
    )
    days = forms.ChoiceField(
        label="The link works",
        choices=[("1", "for a day"), ("7", "for a week"), ("30", "for 30 days")],
        initial="7",
    )
    email = forms.EmailField(
        label="Send it to", required=False, help_text="Empty: you pass the link on yourself."
    )


class RoleForm(forms.Form):
    """Another role of a member."""

    role = forms.ChoiceField(choices=Role.choices)


class NewPersonForm(forms.Form):
    """An account of somebody who was invited."""

    username = forms.CharField(
        label="Name", max_length=150, widget=forms.TextInput(attrs={"autocomplete": "username"})
    )
    password = forms.CharField(
        label="Password",
        max_length=1000,
        strip=False,
        help_text="At least 12 characters.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )


class SignOutForm(forms.Form):
    """The end of all one's sessions; whether there is a password to be asked for is the view's to know."""

    old = forms.CharField(
        label="Your password",
        max_length=1000,
        strip=False,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )


class PasswordForm(SignOutForm):
    """Another password."""

    password = forms.CharField(
        label="New password",
        max_length=1000,
        strip=False,
        help_text="At least 12 characters.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )


class AuditForm(forms.Form):
    """Which entries of the audit are wanted."""

    actor = forms.CharField(label="Who", max_length=200, required=False)
    area = forms.ChoiceField(
        label="What", required=False, choices=[("", "all"), *((area, area) for area in AREAS)]
    )
    since = forms.DateField(
        label="From", required=False, widget=forms.DateInput(attrs={"type": "date"})
    )
    until = forms.DateField(
        label="To", required=False, widget=forms.DateInput(attrs={"type": "date"})
    )
