"""The server in a child process, and a client that streams a chat. usage: server_client.py [MODEL]

Any client of OpenAI's API works: openai.OpenAI(base_url=server.url + "/v1", api_key="-").
"""
import json
import sys
import urllib.request

import gallop

with gallop.serve(sys.argv[1] if len(sys.argv) > 1 else None, max_num_seqs=8) as server:
    print("listening at", server.url)
    body = {"messages": [{"role": "user", "content": "What is 3 plus 4?"}], "max_tokens": 40,
            "stream": True}
    request = urllib.request.Request(server.url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    for line in urllib.request.urlopen(request):
        data = line.decode().removeprefix("data: ").strip()
        if data and data != "[DONE]":
            for choice in json.loads(data)["choices"]:
                print(choice["delta"].get("content") or "", end="", flush=True)
    print()
