"""Puts the admins of Django and of django-celery-beat into the theme. Wiring only.

The project's URLs import it, so it runs once, after all apps have registered their own.
"""

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django_celery_beat import models as beat
from django_celery_beat.admin import (
    ClockedScheduleAdmin,
    CrontabScheduleAdmin,
    PeriodicTaskAdmin,
    PeriodicTaskForm,
    TaskSelectWidget,
)
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

# Nothing of ours can be deleted in bulk, and nothing else needs to be.
admin.site.disable_action("delete_selected")


class ThemedUserAdmin(UserAdmin, ModelAdmin):
    """People who log in, and what they may do."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


class ThemedGroupAdmin(GroupAdmin, ModelAdmin):
    """Permissions that several people share."""


class ThemedTaskSelect(UnfoldAdminSelectWidget, TaskSelectWidget):
    """The known tasks, to choose from."""


class ThemedTaskForm(PeriodicTaskForm):
    """A periodic task in the theme's fields."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.fields["task"].widget = UnfoldAdminTextInputWidget()
        self.fields["regtask"].widget = ThemedTaskSelect()


class ThemedTaskAdmin(PeriodicTaskAdmin, ModelAdmin):
    """What beat sends, and how often; the sweep is among it."""

    form = ThemedTaskForm


class ThemedScheduleAdmin(ModelAdmin):
    """A schedule that periodic tasks share."""


class ThemedClockedAdmin(ClockedScheduleAdmin, ModelAdmin):
    """A single moment."""


class ThemedCrontabAdmin(CrontabScheduleAdmin, ModelAdmin):
    """A schedule as cron writes it."""


for model, themed in (
    (User, ThemedUserAdmin),
    (Group, ThemedGroupAdmin),
    (beat.PeriodicTask, ThemedTaskAdmin),
    (beat.IntervalSchedule, ThemedScheduleAdmin),
    (beat.SolarSchedule, ThemedScheduleAdmin),
    (beat.ClockedSchedule, ThemedClockedAdmin),
    (beat.CrontabSchedule, ThemedCrontabAdmin),
):
    admin.site.unregister(model)
    admin.site.register(model, themed)
