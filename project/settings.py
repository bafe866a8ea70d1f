"""The environment turned into Django settings. Wiring only; `.env.example` lists every variable.

Defaults make one machine work without any server: SQLite under `var/`, the in-memory broker.
"""

from pathlib import Path
from typing import Any

from project import broker, database, environment, logs

BASE_DIR = Path(__file__).resolve().parent.parent
VAR = Path(environment.text("VAR_DIR", str(BASE_DIR / "var")))

# --- Security ----------------------------------------------------------------------------------
DEMO = environment.flag("DEMO")
DEBUG = environment.flag("DEBUG")
SECRET_KEY = environment.secret_key(debug=DEBUG, demo=DEMO, var=VAR)
SECRET_KEY_FALLBACKS = environment.words("SECRET_KEY_FALLBACKS")
ALLOWED_HOSTS = environment.words("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = environment.words("CSRF_TRUSTED_ORIGINS")

# HTTPS=1 says that a proxy in front speaks TLS and sets X-Forwarded-Proto itself.
HTTPS = environment.flag("HTTPS")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
# Whether its subdomains speak TLS too, and whether browsers should know that beforehand, is for the
# owner of the domain to say.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
X_FRAME_OPTIONS = "DENY"

# --- Applications ------------------------------------------------------------------------------
INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_celery_beat",
    "hitl",
    "agents",
    "examples.support_desk",
    "examples.render_farm",
    "examples.purchasing",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "project" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"
WSGI_APPLICATION = "project.wsgi.application"

# --- Database ----------------------------------------------------------------------------------
DATABASES = {"default": database.default(var=VAR)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Passwords, language, static files ---------------------------------------------------------
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "admin:login"
LANGUAGE_CODE = "en-us"
# One language: with translation on, each page of the admin looks up words some 150 times.
USE_I18N = False
TIME_ZONE = environment.text("TIME_ZONE", "UTC")
USE_TZ = True
STATIC_URL = "static/"
STATIC_ROOT = VAR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}
# A checkout on which nobody ran collectstatic serves the files from the apps themselves.
STATIC_ROOT.mkdir(parents=True, exist_ok=True)
WHITENOISE_USE_FINDERS = not any(STATIC_ROOT.iterdir())
UNFOLD = {
    "SITE_TITLE": "Sayso",
    "SITE_HEADER": "Sayso",
    "SITE_SYMBOL": "approval",
    "SITE_URL": None,
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": "project.navigation.favicon"}
    ],
    "SIDEBAR": {"navigation": "project.navigation.sidebar"},
    "DASHBOARD_CALLBACK": "hitl.admin.waiting.landing",
}

# --- Sayso -------------------------------------------------------------------------------------
HITL: dict[str, Any] = {
    "TTL": environment.text("HITL_TTL", "15m"),  # how long a tool gate waits for a person
    "HORIZON": "60s",  # deadlines nearer than this get a countdown message
    # How often beat asks for a sweep of what is due. The demo's queue dies with its process, and
    # someone is looking: what a kill left behind goes on soon.
    "SWEEP_EVERY": "5s" if DEMO else "30s",
    "SWEEP_BATCH": 500,  # rows that one sweep reads at a time
    # Where others reach this site: it begins the addresses that parked calls give away.
    "BASE_URL": environment.text("BASE_URL", "http://localhost:8000"),
    # What signs callbacks; several while it is changed, the newest first.
    "HMAC_SECRET": environment.hmac_secrets(demo=DEMO, var=VAR),
    # Where a worker reaches this site, if not at BASE_URL; and the other sites that it may call.
    "SITE_URL": environment.text("SITE_URL"),
    "CALLBACK_HOSTS": environment.words("CALLBACK_HOSTS"),
    "CALLBACK_INTERNAL_HOSTS": environment.words("CALLBACK_INTERNAL_HOSTS"),
}
AGENTS: dict[str, Any] = {
    # The model of an agent that names none, for example "openai:gpt-5"; None: each agent must.
    "DEFAULT_MODEL": environment.text("DEFAULT_MODEL") or None,
    "LEASE": "6s",  # a worker that is silent for so long has lost its run
    # TRIGGER_SECRET_MAIL=… is the secret that triggers know as "mail"; several with commas between.
    "TRIGGER_SECRETS": environment.named("TRIGGER_SECRET_"),
}
if DEMO:
    AGENTS["TRIGGER_SECRETS"]["demo"] = environment.kept_secret(
        VAR / "demo-trigger-secret", size=24
    )

# Where the example's render farm listens; the demo brings its own.
RENDER_FARM_URL = environment.text("RENDER_FARM_URL")

# --- Celery ------------------------------------------------------------------------------------
CELERY_BROKER_URL = environment.text("BROKER_URL", broker.MEMORY)
CELERY_TASK_QUEUES = broker.queues(CELERY_BROKER_URL)
CELERY_TASK_ROUTES = broker.ROUTES
CELERY_TASK_DEFAULT_QUEUE = broker.AGENTS
CELERY_TASK_DEFAULT_EXCHANGE_TYPE = broker.exchange_type(CELERY_BROKER_URL)
CELERY_TASK_DEFAULT_QUEUE_TYPE = broker.queue_type(CELERY_BROKER_URL)
CELERY_BROKER_TRANSPORT_OPTIONS = broker.transport_options(CELERY_BROKER_URL)
CELERY_BROKER_CONNECTION_TIMEOUT = broker.SECONDS_MAX
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a worker outlives its broker's absence
# RabbitMQ closes the channel of a message held too long; the worker opens a new one.
CELERY_BROKER_CHANNEL_ERROR_RETRY = True

# One message in hand per worker process, acknowledged when its work is done: one whose process dies
# comes back, on RabbitMQ also when the whole worker does. Nothing rests on that (the sweep repeats
# what is owed), it is only faster.
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_ACKS_ON_FAILURE = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
# Below RabbitMQ's consumer timeout of 30 minutes, past which a running segment would start again.
CELERY_TASK_TIME_LIMIT = environment.number("TASK_SECONDS_MAX", 25 * 60)
CELERY_TASK_SOFT_TIME_LIMIT = max(CELERY_TASK_TIME_LIMIT - 60, 1)
# When a worker is stopped, a running segment has this many seconds to reach its next boundary.
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = environment.number("SHUTDOWN_SECONDS", 20)

# A hint that cannot be sent at once is dropped: the commit stands and the sweep sends it again.
CELERY_TASK_PUBLISH_RETRY = True
CELERY_TASK_PUBLISH_RETRY_POLICY = {
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0.2,
    "interval_max": 0.2,
}
CELERY_TIMEZONE = "UTC"
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_REDIRECT_STDOUTS = False
# The sweep puts itself into the schedule when beat starts (hitl/startup.py).
CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"

# --- Logs --------------------------------------------------------------------------------------
LOGGING = logs.config(
    style=environment.text("LOG_STYLE", "console" if DEBUG or DEMO else "json"),
    level=environment.text("LOG_LEVEL", "WARNING" if DEMO else "INFO"),
)
