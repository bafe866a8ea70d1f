"""The addresses of hitl for the outside: `path("hooks/", include("hitl.urls"))`."""

from django.urls import path

from hitl import views

app_name = "hitl"
urlpatterns = [path("resume/<str:token>", views.resume, name="resume")]
