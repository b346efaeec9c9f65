# Image with the single file and the C library: no shell, no package manager, no user but a number. docs/how-to/container.md

# Debian, or another system with glibc, a shell and ldd. Only its C library gets into the image.
ARG SYSTEM=debian:12-slim

FROM ${SYSTEM} AS parts
COPY build/bin/ /files/
# The file for this processor, the libraries that it loads, and all licences. `uname` also names the processor of builders that
# do not set TARGETARCH.
RUN set -eu; \
    case "$(uname -m)" in \
      x86_64) target=linux-x64 ;; \
      aarch64) target=linux-arm64 ;; \
      *) echo "no single file for $(uname -m)" >&2; exit 1 ;; \
    esac; \
    program="/files/understudy-$target"; \
    [ -e "$program" ] || { echo "build it first: npx bun run compile -- --target $target" >&2; exit 1; }; \
    install -D "$program" /image/usr/local/bin/understudy; \
    for library in $(ldd "$program" | grep -o '/[^ ]*'); do install -D "$library" "/image$library"; done; \
    install -D -m 644 -t /image/usr/share/doc/understudy /files/NOTICE; \
    install -D -m 644 -t /image/usr/share/doc/libc6 /usr/share/doc/libc6/copyright

FROM scratch
ARG VERSION=0.2.0
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="Understudy" \
      org.opencontainers.image.description="Stands in for an LLM inference server" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
COPY --from=parts /image/ /
ENV PATH=/usr/local/bin
# A number, so that Kubernetes can tell that the user is not root.
USER 65532:65532
# vLLM and trtllm-serve: 8000. Triton: HTTP 8000, gRPC 8001, metrics 8002, OpenAI front end 9000.
EXPOSE 8000 8001 8002 9000
# The first check comes after the interval. A check takes about 15 ms of a processor.
HEALTHCHECK --interval=1s --timeout=5s --retries=5 CMD ["understudy", "health"]
ENTRYPOINT ["understudy"]
CMD ["serve", "--host", "0.0.0.0"]
