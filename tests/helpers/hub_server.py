"""A small hub on localhost: the few endpoints that huggingface_hub uses to push and pull regular files."""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class HubServer:
    """Keeps repositories in memory; every commit replaces the newest state and has a name of its own."""

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.asked: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def commit(self, name: str, lines: list[dict]) -> None:
        files = self.repositories[name]
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "deletedFile":
                del files[value["path"]]

    def revision(self, name: str) -> str:
        state = {path: hashlib.sha1(content).hexdigest() for path, content in self.repositories[name].items()}
        return hashlib.sha1(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _handler(hub: HubServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers as the hub does, as far as a client looks."""

        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Be quiet."""

        def answer(self, content: object, code: int = 200, headers: dict[str, str] | None = None) -> None:
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(code)
            for key, value in (headers or {}).items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def missing(self, kind: str) -> None:
            self.answer({"error": kind}, 404, {"X-Error-Code": kind})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            hub.asked.append(f"POST {self.path}")
            parts = self.path.split("?")[0].strip("/").split("/")
            if self.headers.get("Authorization") != "Bearer secret":
                self.answer({"error": "who are you"}, 401)
            elif parts == ["api", "repos", "create"]:
                given = json.loads(body)
                name = f"{given.get('organization') or 'me'}/{given['name']}"
                hub.repositories.setdefault(name, {})
                self.answer({"url": f"{hub.url}/{name}", "name": name})
            elif parts[1] == "validate-yaml":
                self.answer({"errors": [], "warnings": []})
            elif parts[4] == "preupload":
                wanted = json.loads(body)["files"]
                modes = [
                    {"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in wanted
                ]
                self.answer({"files": modes})
            else:
                name = f"{parts[2]}/{parts[3]}"
                hub.commit(name, [json.loads(line) for line in body.splitlines() if line])
                revision = hub.revision(name)
                self.answer({"commitUrl": f"{hub.url}/{name}/commit/{revision}", "commitOid": revision})

        def do_GET(self) -> None:
            hub.asked.append(f"{self.command} {self.path}")
            parts = self.path.split("?")[0].strip("/").split("/")
            name = "/".join(parts[2:4] if parts[0] == "api" else parts[:2])
            if name not in hub.repositories:
                self.missing("RepoNotFound")
            elif parts[0] != "api":
                self.file(name, "/".join(parts[4:]))
            elif parts[4:5] == ["tree"]:
                files = hub.repositories[name].items()
                self.answer([_entry(path, content) for path, content in files])
            else:
                siblings = [{"rfilename": path} for path in hub.repositories[name]]
                self.answer({"id": name, "sha": hub.revision(name), "siblings": siblings, "tags": []})

        do_HEAD = do_GET  # noqa: N815

        def file(self, name: str, path: str) -> None:
            content = hub.repositories[name].get(path)
            if content is None:
                self.missing("EntryNotFound")
                return
            headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": hub.revision(name)}
            self.answer(content, 200, headers)

    return Handler


def _entry(path: str, content: bytes) -> dict:
    oid = hashlib.sha1(content).hexdigest()
    return {"type": "file", "path": path, "size": len(content), "oid": oid}
