// An MCP server whose tools fetch a URL: by fetch (undici), and by node:http or node:https.
import http from 'node:http';
import https from 'node:https';
import readline from 'node:readline';

const CLIENTS = {
  fetch: async (url) => (await fetch(url)).text(),
  http: (url) => new Promise((resolve, reject) => {
    (url.startsWith('https') ? https : http).get(url, (answer) => {
      let said = '';
      answer.on('data', (data) => { said += data; });
      answer.on('end', () => resolve(said));
    }).on('error', reject);
  }),
};

async function answer({ method, params }) {
  if (method === 'initialize') {
    return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'clients', version: '1' } };
  }
  if (method === 'tools/list') {
    return { tools: Object.keys(CLIENTS).map((name) => ({ name, inputSchema: { type: 'object' } })) };
  }
  if (method === 'tools/call') {
    try {
      return { content: [{ type: 'text', text: await CLIENTS[params.name](params.arguments.url) }] };
    } catch (problem) {
      const why = problem.cause ?? problem;
      return { content: [{ type: 'text', text: `${why.code}: ${why.message}` }], isError: true };
    }
  }
  return {};
}

readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  const asked = JSON.parse(line);
  if (asked.id !== undefined && asked.method) {
    process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id: asked.id, result: await answer(asked) })}\n`);
  }
});
