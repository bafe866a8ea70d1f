"""The screens of hitl in the Django admin: the inbox, a page per request, and the acts on it.

`inbox` is the list, `request_page` the page, `acts` the POST views, `offers` what may be done and
in which words, `editing` changes a payload, `callbacks` lists who is to be told, `filters` and
`theme` what the lists stand on, `waiting` a count for sidebars.
"""

from hitl.admin.callbacks import CallbackAdmin
from hitl.admin.inbox import InboxAdmin

__all__ = ["CallbackAdmin", "InboxAdmin"]
