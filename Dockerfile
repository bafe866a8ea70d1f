# One image for web, worker and beat; docker-compose.yml says which command each runs.
FROM python:3.12-slim-bookworm

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    # A stopped worker gives running segments a bounded time (SHUTDOWN_SECONDS) to reach a boundary.
    REMAP_SIGTERM=SIGQUIT

WORKDIR /app
RUN useradd --system --create-home sayso && mkdir var && chown sayso var

COPY requirements.lock .
RUN pip install --no-cache-dir --no-deps --require-hashes -r requirements.lock

COPY manage.py ./
COPY project project
COPY hitl hitl
COPY agents agents
COPY examples examples

USER sayso
# The key signs nothing here: collecting files only needs settings that load.
RUN SECRET_KEY=only-for-the-build python manage.py collectstatic --no-input

EXPOSE 8000
CMD ["uvicorn", "project.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--log-level", "warning"]
