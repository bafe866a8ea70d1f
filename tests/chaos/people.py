"""Who sits at the screens: users of the site, all of them in one group."""

PASSWORD = "only-for-chaos"
GROUP = "finance"
QUORUM = {f"group:{GROUP}": 2}
USERS = {"browser": "ana", "verbs-1": "bert", "verbs-2": "cleo"}
"""The user as whom each driver answers what takes several people."""


def introduce() -> None:
    """Make the users, who may do anything, and their group."""
    from django.contrib.auth.models import Group, User

    group = Group.objects.create(name=GROUP)
    for name in USERS.values():
        group.user_set.add(User.objects.create_superuser(name, password=PASSWORD))
