"""The WSGI application, for servers that speak no ASGI."""

import gc
import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

application = get_wsgi_application()

# What the imports made stays for good: a full collection need not walk it, which takes as long as
# several pages.
gc.freeze()
