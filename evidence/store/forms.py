"""What a maintainer types: for how long evidence is kept, why a plan is needed, why bytes must go."""

from django import forms

from evalhub.protocol.retention import MOST_DAYS


class RetentionForm(forms.Form):
    """Days; empty keeps for good. Whether they fit together is for the operation to find out."""

    bulk_days = forms.IntegerField(
        label="Transcripts, logs and files", min_value=1, max_value=MOST_DAYS, required=False
    )
    record_days = forms.IntegerField(
        label="Results, judge calls and lane records",
        min_value=1,
        max_value=MOST_DAYS,
        required=False,
    )


class PinForm(forms.Form):
    reason = forms.CharField(
        label="Why it is needed",
        min_length=3,
        max_length=2000,
        error_messages={"required": "Say why the plan is needed, in a few words."},
    )


class PurgeForm(forms.Form):
    """Why bytes must go. Of a pinned plan, a second word is asked for."""

    reason = forms.CharField(
        label="Why its bytes must go",
        min_length=3,
        max_length=2000,
        error_messages={
            "required": "Say why, in a few words: whoever looks for them will read it."
        },
    )
    even_pinned = forms.BooleanField(label="Although it is needed", required=False)
