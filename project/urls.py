"""What the site serves: the admin, what jobs and events call, and addresses for a watchdog."""

from django.apps import apps
from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from project import health, screens  # noqa: F401  (screens registers admins)

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("hooks/", include("hitl.urls")),
    path("hooks/", include("agents.urls")),
    path("healthz", health.alive),
    path("readyz", health.ready),
]

if apps.is_installed("examples.purchasing"):  # chaos and the benchmarks run without examples
    urlpatterns.append(path("purchases/", include("examples.purchasing.urls")))
