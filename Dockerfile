# SPDX-License-Identifier: Apache-2.0
# docker build -t orrery .  &&  docker run --rm -v "$PWD:/data" orrery analyze TRACE
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends make
COPY . /source
WORKDIR /source
RUN make install PREFIX=/usr DESTDIR=/installed

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends libsqlite3-0 libxxhash0 libyaml-0-2 libzstd1 liburing2 libisal2 zlib1g \
    libarchive13 libcurl4 libdnnl2 libmicrohttpd12 && rm -rf /var/lib/apt/lists/*
COPY --from=build /installed/usr/bin/orrery /usr/bin/orrery
COPY --from=build /installed/usr/share/orrery /usr/share/orrery
WORKDIR /data
ENTRYPOINT ["orrery"]
CMD ["--help"]
