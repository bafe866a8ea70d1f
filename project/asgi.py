"""The ASGI application, for uvicorn."""

import gc
import os
import warnings

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
# Under ASGI each request may have a thread of its own, and with it a database connection that
# nobody would close if it were kept: a connection ends with its request.
os.environ.setdefault("CONN_MAX_AGE", "0")

# Static files are read in small pieces from the local disk; that they block for a moment is known.
warnings.filterwarnings(
    "ignore", message="StreamingHttpResponse must consume synchronous iterators"
)

application = get_asgi_application()

# What the imports made stays for good: a full collection need not walk it, which takes as long as
# several pages.
gc.freeze()
