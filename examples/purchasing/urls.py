"""The addresses of the example office."""

from django.urls import path

from examples.purchasing import views

app_name = "purchasing"
urlpatterns = [path("decided/", views.decided, name="decided")]
