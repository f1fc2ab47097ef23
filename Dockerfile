# Serves a mounted model on the CPU:
#   docker build -t dpw . && docker run --rm -p 8000:8000 -v "$PWD/my-clip:/model:ro" dpw
# A model that stands on a CLIP in a folder needs that folder too: -v ...:/clip:ro ... dpw /model --backbone /clip
FROM python:3.12-slim

COPY pyproject.toml constraints.txt README.md LICENSE /src/
COPY tools/long_description.py /src/tools/
COPY src /src/src
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
        -c /src/constraints.txt "/src[serve]" \
    && rm -rf /src \
    && useradd --create-home --uid 10001 dpw
USER dpw
ENV HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1
EXPOSE 8000
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/readyz')"]
ENTRYPOINT ["dpw", "serve", "--host", "0.0.0.0"]
CMD ["/model"]
