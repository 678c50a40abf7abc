# The image of every service: --target names the service, EXTRA the extra of pyproject.toml that its back-end needs.
#   docker build --target tts --build-arg EXTRA=tts-openvoice -t e3rg-tts-openvoice .
#   docker run --gpus all -p 50051:50051 -v $PWD/.models:/models:ro -v /weights:/weights:ro \
#       -e E3RG_TTS_BACKEND=openvoice -e E3RG_TTS_WEIGHTS=/weights/OpenVoice e3rg-tts-openvoice
# Weights, and code that others license, are never in an image: /models is what `make models` fills, the rest are
# volumes of their own. They may be read-only, but user 10001 must be able to read them: what `save_pretrained` wrote
# needs `chmod -R a+rX`. With --read-only, PyTorch and a model's own code also need --tmpfs /tmp.
# A stop waits up to SHUTDOWN_GRACE_S, 20 s, for running calls; `docker stop` kills after 10: --stop-timeout 30.
# Without a GPU, name PyTorch's index of CPU builds in the build argument PIP_EXTRA_INDEX_URL: gigabytes less.
FROM docker.io/library/python:3.11-slim-bookworm AS service

# tini: Python as the first process of a container would miss a SIGTERM in its first half second, while it imports.
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 tini && rm -rf /var/lib/apt/lists/* && \
    useradd --uid 10001 --no-create-home e3rg && install -d -o e3rg -m 700 /data

# What others wrote first, in a layer that stays while our own code changes.
ARG EXTRA
ARG PIP_EXTRA_INDEX_URL
COPY pyproject.toml /src/
RUN touch /src/README.md /src/LICENSE && python -m venv /venv && \
    /venv/bin/pip install --no-cache-dir "/src[${EXTRA:?name one: --build-arg EXTRA=tts}]"

COPY README.md LICENSE /srv/
COPY client /srv/client
COPY emotions /srv/emotions
COPY local /srv/local
COPY models /srv/models
COPY orchestrator /srv/orchestrator
COPY perception /srv/perception
COPY protos/gen/e3rg /srv/e3rg
COPY services /srv/services
RUN /venv/bin/python -m compileall -q /srv

ENV PATH=/venv/bin:$PATH \
    PYTHONPATH=/srv \
    PYTHONUNBUFFERED=1 \
    HF_HUB_OFFLINE=1
USER 10001
WORKDIR /srv
EXPOSE 50051 9090

FROM service AS mllm
# transformers copies a model's own code to its cache.
ENV E3RG_MLLM_MODELS_DIR=/models \
    HF_MODULES_CACHE=/tmp/model-code
ENTRYPOINT ["tini", "--", "python", "-m", "services.mllm"]

FROM service AS understanding
ENTRYPOINT ["tini", "--", "python", "-m", "services.understanding"]

FROM service AS memory
# A volume of this name keeps the embedded database and media; it has to be writable by user 10001. With PostgreSQL and S3
# nothing is written to it; `docker run … e3rg-memory migrate` makes the schema.
ENV E3RG_MEMORY_FOLDER=/data \
    E3RG_MEMORY_MODELS_DIR=/models
ENTRYPOINT ["tini", "--", "python", "-m", "services.memory"]

FROM service AS tts
ENV E3RG_TTS_MODELS_DIR=/models
ENTRYPOINT ["tini", "--", "python", "-m", "services.tts"]

FROM service AS video
ENV E3RG_VIDEO_MODELS_DIR=/models
ENTRYPOINT ["tini", "--", "python", "-m", "services.video"]

FROM service AS orchestrator
ENTRYPOINT ["tini", "--", "python", "-m", "orchestrator"]
