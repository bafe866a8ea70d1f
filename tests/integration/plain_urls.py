"""The addresses of a project that has Django's own admin and nothing else."""

from django.contrib import admin
from django.urls import path

urlpatterns = [path("admin/", admin.site.urls)]
