// Plays one episode over stdio and one over HTTP with the client that most agents are built on.
// Arguments: address of the HTTP server, then the command of the stdio server. Prints what it saw.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, command, ...args] = process.argv.slice(2);

async function play(transport) {
  const client = new Client({ name: "npm", version: "1" });
  await client.connect(transport);
  const read = async (uri) => (await client.readResource({ uri })).contents[0].text;
  const call = (name, values) => client.callTool({ name, arguments: values });
  const seen = {
    server: client.getServerVersion().name,
    instructions: client.getInstructions(),
    tools: (await client.listTools()).tools,
    resources: (await client.listResources()).resources.map((one) => one.uri),
    lent: await call("lend_book", { book_id: "B1", member_id: "M001" }),
    failed: await call("lend_book", { book_id: 5 }),
    unknown: await call("no_such_tool", {}).catch((error) => error.code),
    diff: await read("toolloom://diff"),
    startedOver: await call("toolloom_start_over", {}),
    after: await read("toolloom://diff"),
  };
  if (transport.terminateSession) await transport.terminateSession();
  await client.close();
  return seen;
}

const stdio = await play(new StdioClientTransport({ command, args, stderr: "inherit" }));
const http = await play(new StreamableHTTPClientTransport(new URL(url)));
console.log(JSON.stringify({ stdio, http }));
