import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const script = fileURLToPath(new URL('../llama-server/serve.py', import.meta.url))

export interface LlamaServer extends AsyncDisposable {
  readonly url: string
}

/**
 * llama.cpp's server in a process of its own.
 * @param python of the packages of test/llama-server
 * @param path a GGUF file, or a folder for a tiny random one
 */
export async function startLlamaServer(python: string, path: string, key: string): Promise<LlamaServer> {
  const server = spawn(python, [script, path, key], { stdio: ['pipe', 'pipe', 'ignore'] })
  const exited = once(server, 'exit')
  const line = once(createInterface(server.stdout), 'line').then(([first]) => first as string)
  const url = await Promise.race([line, exited.then(() => Promise.reject(new Error(`llama.cpp does not serve ${path}`)))])
  return {
    url,
    async [Symbol.asyncDispose]() {
      server.stdin.end()
      await exited
    },
  }
}
