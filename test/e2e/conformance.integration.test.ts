import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Agent } from '../../agent/agent.ts'
import { buildBundle } from '../../core/model/bundle/build.ts'
import { fixtureDir } from '../oracle/fixtures.ts'
import { type AgentWorld, startAgentWorld } from '../support/agent-world.ts'
import { toGguf } from '../support/gguf.ts'
import { type LlamaServer, startLlamaServer } from '../support/llama-server.ts'
import { pythonWith } from '../support/python-packages.ts'
import { tempDir } from '../support/temp-dir.ts'

interface Row {
  readonly request: string
  readonly path: string
  /** Null: GET. Without messages, prompt or input it asks a question. */
  readonly body: Record<string, unknown> | null
  /** Path of the response → what it must match as JSON. */
  readonly shows: Record<string, string>
  /** Asked twice, it has the same answer. */
  readonly twice?: true
  readonly gzip?: true
  /** A field without which the answer is another. */
  readonly without?: string
  /** A second request, with the id of the first response. */
  readonly then?: Record<string, unknown>
  readonly agent: string
  readonly bridge: string
  readonly llamaCpp: string
}
const file = new URL('../../scripts/docs/conformance.json', import.meta.url)
const rows = JSON.parse(readFileSync(file, 'utf8')) as readonly Row[]
const key = 'secret'
const python = pythonWith('llama-server')

let world: AgentWorld
let agent: Agent
let llama: LlamaServer | undefined
const dir = tempDir()
beforeAll(async () => {
  const embedding = join(dir.path, 'embed')
  await buildBundle({ checkpoint: fixtureDir('llama'), out: embedding, embedding: 'mean', format: 'fp32' })
  world = await startAgentWorld({ bridge: { embedding } })
  agent = await world.startAgent({ id: 'embedding', embedding })
  llama = python === undefined ? undefined : await startLlamaServer(python, await sameModel(), key)
}, 60_000)
afterAll(async () => {
  await llama?.[Symbol.asyncDispose]()
  await world[Symbol.asyncDispose]()
  dir[Symbol.dispose]()
})

/** The weights, tokenizer and template that agent and bridge have. */
async function sameModel(): Promise<string> {
  const file = join(dir.path, 'tiny.gguf')
  await writeFile(file, await toGguf(fixtureDir('llama')))
  return file
}

/** What api.md's table says of Brim and llama.cpp is what they do. vLLM and Ollama do not run here: it quotes their documentation. */
describe.each(['agent', 'bridge', 'llamaCpp'] as const)('the table of requests: %s', (server) => {
  it.each(rows.map((row) => [`${row.path}: ${row.request}`, row] as const))('%s', async (_, row) => {
    const url = { agent: agent.apiUrl, bridge: world.bridge.httpUrl, llamaCpp: llama?.url }[server]
    if (url === undefined) return
    // `option`: the server was started without it.
    expect(await outcomeOf(url, row)).toBe(row[server] === 'option' ? 'refused' : row[server])
  })
})

async function outcomeOf(url: string, row: Row): Promise<string> {
  const first = await ask(url, row, row.body)
  if (!first.ok) return 'refused'
  let { json } = first
  if (row.then) {
    const next = JSON.parse(JSON.stringify(row.then).replace('{id}', String(at(json, 'id')))) as Record<string, unknown>
    const second = await ask(url, row, next)
    if (!second.ok) return 'refused'
    json = second.json
  }
  const shown = Object.entries(row.shows).every(([path, pattern]) =>
    new RegExp(pattern, 's').test(JSON.stringify(at(json, path)) ?? ''),
  )
  if (!shown) return 'ignored'
  const isSame = async (body: Row['body']) => {
    const again = await ask(url, row, body)
    return Object.keys(row.shows).every((path) => JSON.stringify(at(again.json, path)) === JSON.stringify(at(json, path)))
  }
  if (row.twice && !(await isSame(row.body))) return 'ignored'
  if (row.without && (await isSame({ ...row.body, [row.without]: undefined }))) return 'ignored'
  return 'yes'
}

const question = {
  model: 'brim',
  messages: [{ role: 'user', content: 'Rain?' }],
  max_tokens: 8,
  temperature: 0,
}

async function ask(url: string, { path, gzip }: Row, given: Row['body']) {
  const { max_tokens, messages, ...others } = question
  const base = path.endsWith('chat/completions')
    ? question
    : path.endsWith('completions')
      ? { ...others, max_tokens }
      : { model: 'brim' }
  const text = JSON.stringify({ ...base, ...given }, (_, value: unknown) =>
    value === null && given?.max_tokens === null ? undefined : value,
  )
  const response = await fetch(`${url}${path}`, {
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, ...(gzip && { 'content-encoding': 'gzip' }) },
    ...(given && { method: 'POST', body: gzip ? gzipSync(text) : text }),
    signal: AbortSignal.timeout(20_000),
  })
  const { ok, status } = response
  const body = await response.text()
  return {
    ok,
    status,
    json: ok && given?.stream === true ? { events: eventsOf(body) } : ok ? (JSON.parse(body) as unknown) : body,
  }
}

const eventsOf = (body: string): unknown[] =>
  body
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)) as unknown)

/** @param path fields and indices, separated by dots; −1: the last */
function at(value: unknown, path: string): unknown {
  let found = value
  for (const field of path.split('.'))
    found = Array.isArray(found) ? found.at(Number(field)) : (found as Record<string, unknown> | undefined)?.[field]
  return found
}
