"""The addresses of agents for the outside: `path("hooks/", include("agents.urls"))`."""

from django.urls import path

from agents.triggers import views

app_name = "agents"
urlpatterns = [path("triggers/<slug:slug>", views.receive, name="trigger")]
