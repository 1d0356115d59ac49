"""What a person types: to sign in, and to make or change a channel."""

from collections.abc import Sequence

from django import forms

from evalhub.web.templatetags.formatting import words
from lanes.projects.models import ChannelKind, NoticeKind
from lanes.projects.operations.channels import CHOSEN_KINDS


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
