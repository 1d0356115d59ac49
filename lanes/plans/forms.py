"""What a person types: why a plan is cancelled."""

from django import forms


class CancelForm(forms.Form):
    """The reason is kept with the plan, and shown on its page and to its lanes' people."""

    reason = forms.CharField(
        min_length=3,
        max_length=300,
        error_messages={"required": "Say why nobody waits for it any more, in a few words."},
    )
