import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { menu, run } from '../../brim.ts'
import type { Menu } from '../../core/kit/cli/command.ts'
import { BrimReport } from '../../core/wire/openai/responses.ts'
import { jobOperations, Submitted } from '../../core/wire/protocol/http/jobs.ts'
import type { Operation } from '../../core/wire/protocol/http/operation.ts'
import { allOperations } from '../../core/wire/protocol/http/operations.ts'
import { invitationText } from '../../core/wire/protocol/identity.ts'
import { captureIo } from '../support/captured-io.ts'
import { valid } from '../support/messages.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

/** Copies to the clipboard, clears, retitles, moves, reverses: what a device or a bridge could make a terminal do. */
const hostilePieces = [
  ...['\u001b]52;c;aGk=\u0007', '\u001b[2J', '\u009b2K', '\u009d0;title\u009c', '\u0000', '\u0008', '\r', '\u007f', '\t'],
  ...['\u202e', '\u2066', '\u200f', '\u061c', '\u2028', '\u2029', '\u0085', '\ufeff', '\ud800', '\u{e0041}'],
]
const forged = 'FORGED'
const hostileText = fc
  .array(fc.constantFrom(...hostilePieces, `\n${forged} line`, 'é', '🙂', 'x'), { minLength: 1, maxLength: 6 })
  .map((pieces) => pieces.join(''))

/** Characters that may reach a terminal; a new line is the only control character. */
const harmless = /^(?:\n|[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}])*$/u

/** The valid value with every string replaced that the schema leaves free. */
function hostileValue(schema: z.ZodType, value: unknown, text: string): unknown {
  const copy = structuredClone(value)
  const isValid = () => schema.safeParse(copy).success
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return
    const place = node as Record<string, unknown>
    for (const [name, field] of Object.entries(place)) {
      if (typeof field !== 'string') visit(field)
      else {
        place[name] = text
        if (!isValid()) place[name] = field
      }
    }
    // A name of our own choice, as in labels and failures.
    const [first] = Object.keys(place)
    if (Array.isArray(node) || first === undefined) return
    place[text] = place[first]
    if (!isValid() || Object.keys(schema.parse(copy) as object).length === 0) delete place[text]
  }
  visit(copy)
  return copy
}

const operations = Object.values(allOperations).flatMap((group) => Object.values(group))
const operationOf = ({ method, url = '' }: IncomingMessage): Operation | undefined =>
  operations.find(
    (one) =>
      one.method === method && new RegExp(`^${one.path.replace(/:\w+/g, '[^/]+').replace('*', '.+')}$`).test(url.split('?')[0]!),
  )

/** A server whose every response is valid, and hostile. */
class HostileServer {
  text = ''
  seed = 1
  refuses = false
  url = ''
  readonly #server = createServer((request, response) => this.#respond(request, response))

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  #sample(schema: z.ZodType): unknown {
    const json = z.toJSONSchema(schema, { io: 'output', unrepresentable: 'any' }) as Parameters<typeof valid>[0]
    const [value] = fc.sample(valid(json), { seed: this.seed, numRuns: 1 })
    return hostileValue(schema, value, this.text)
  }

  #respond(request: IncomingMessage, response: ServerResponse): void {
    request.resume()
    if (this.refuses) this.#json(response, 400, { error: { code: 'FORBIDDEN', message: this.text, hint: this.text } })
    else if (request.url?.startsWith('/v1/chat/')) this.#answer(response)
    else this.#serve(request, response)
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const operation = operationOf(request)
    const isStream = request.headers.accept === 'text/event-stream'
    if (isStream && operation?.event) {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      for (let n = 0; n < 3; n++) response.write(`data: ${JSON.stringify(this.#sample(operation.event))}\n\n`)
      if (operation.path === jobOperations.events.path)
        response.write(
          `data: ${JSON.stringify({ type: 'text', seq: 1, at: '2031-05-04T09:30:00.125Z', attempt: 1, device: null, data: { text: this.text } })}\n\n`,
        )
      return void response.end()
    }
    const isLaterPage = request.url?.includes('after=') && !request.url.endsWith('after=0')
    const schema = operation?.path === jobOperations.submit.path && operation.method === 'POST' ? Submitted : operation?.response
    if (isLaterPage) this.#json(response, 200, { events: [] })
    else if (schema) this.#json(response, 200, this.#sample(schema))
    else this.#json(response, 404, {})
  }

  #answer(response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const event = { id: '1', object: 'chat.completion.chunk', created: 1, model: this.text }
    const choices = [{ index: 0, delta: { content: this.text }, finish_reason: null }]
    response.write(`data: ${JSON.stringify({ ...event, choices })}\n\n`)
    response.end(`data: ${JSON.stringify({ ...event, choices: [], brim: this.#sample(BrimReport) })}\n\ndata: [DONE]\n\n`)
  }

  #json(response: ServerResponse, status: number, body: unknown): void {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }
}

const nextCertificate = fileURLToPath(new URL('../fixtures/tls/second.cert.pem', import.meta.url))

/** Every command that prints what a bridge, a device or an agent sent. */
const commands: readonly string[][] = [
  ['bridge', 'audit'],
  ['bridge', 'drain', 'n', '--no-wait'],
  ['bridge', 'drain', 'n', '--undo'],
  ['bridge', 'key', 'create', '--name', 'ada'],
  ['bridge', 'key', 'list'],
  ['bridge', 'key', 'revoke', '1'],
  ['bridge', 'tls', 'announce', nextCertificate],
  ['bridge', 'tls', 'status'],
  ['bridge', 'tls', 'withdraw', 'p'],
  ['bridge', 'token', 'create'],
  ['bridge', 'token', 'list'],
  ['bridge', 'token', 'revoke', '1'],
  ['device', 'approve', 'd'],
  ['device', 'drain', 'd'],
  ['device', 'label', 'd'],
  ['device', 'list'],
  ['device', 'logs', 'd'],
  ['device', 'logs', 'd', '--follow'],
  ['device', 'remove', 'd'],
  ['device', 'revoke', 'd'],
  ['device', 'show', 'd'],
  ['device', 'undrain', 'd'],
  ['device', 'watch'],
  ['device', 'watch', 'd'],
  ['fleet', 'doctor'],
  ['fleet', 'status'],
  ['fleet', 'status', '--watch'],
  ['job', 'cancel', '1'],
  ['job', 'list'],
  ['job', 'retry', '1'],
  ['job', 'show', '1'],
  ['job', 'submit', 'profile', '--device', 'd'],
  ['job', 'submit', 'profile', '--device', 'd', '--watch'],
  ['job', 'watch', '1'],
  ['login'],
  ['rollout', 'abort', '1'],
  ['rollout', 'create', 'config', '--set', 'a=b', '--all'],
  ['rollout', 'create', 'config', '--set', 'a=b', '--all', '--watch'],
  ['rollout', 'list'],
  ['rollout', 'pause', '1'],
  ['rollout', 'resume', '1'],
  ['rollout', 'retry', '1'],
  ['rollout', 'status', '1'],
  ['rollout', 'status', '1', '--devices'],
  ['whoami'],
]
/** They print only what this machine itself knows. */
const local = [
  'bridge backup',
  'bridge config check',
  'bridge config show',
  'bridge migrate',
  'bridge nats-keys',
  'bridge restore',
  'bridge run',
  'bridge support-bundle',
  'logout',
]
/** Answers have lines of their own. */
const printsText = (argv: readonly string[]) => argv[0] === 'ask' || argv.includes('--watch') || argv[1] === 'watch'

const dir = shared(tempDir)
const server = new HostileServer()
beforeAll(async () => {
  await server.listen()
  mkdirSync(join(dir.path, 'home'))
  writeFileSync(join(dir.path, 'key'), 'k', { mode: 0o600 })
  const invitation = invitationText({ url: server.url, id: '00000000', secret: 'x'.repeat(43) })
  writeFileSync(join(dir.path, 'token'), invitation, { mode: 0o600 })
})
afterAll(() => server.close())

/** Runs the command, which ends at the latest when it has printed something that it would repeat. */
async function output(argv: readonly string[]): Promise<{ out: string; err: string }> {
  const stop = new AbortController()
  const { io, out, err } = captureIo({ env: { HOME: join(dir.path, 'home') }, signal: stop.signal })
  const isEndless = argv.includes('--watch') || argv[1] === 'watch' || argv.includes('--follow')
  if (isEndless) setTimeout(() => stop.abort(new Error('enough')), 150)
  await run(argv, io)
  return { out: out(), err: err() }
}

const access = () => ['--bridge-url', server.url, '--key-file', join(dir.path, 'key')]

describe('a terminal', () => {
  const hostile = fc.record({ text: hostileText, seed: fc.integer({ min: 0 }), refuses: fc.boolean(), json: fc.boolean() })

  const check = (argv: readonly string[]) =>
    fc.assert(
      fc.asyncProperty(hostile, async ({ json, ...behaviour }) => {
        Object.assign(server, behaviour)
        const { out, err } = await output([...argv, ...(json ? ['--json'] : [])])
        expect(out).toMatch(harmless)
        expect(err).toMatch(harmless)
        if (!printsText(argv)) expect(`${out}\n${err}`.split('\n').filter((line) => line.startsWith(forged))).toEqual([])
        if (json && out !== '') for (const line of out.trim().split('\n')) JSON.parse(line)
      }),
      { numRuns: 8, seed: 11 },
    )

  it.each(commands.map((argv) => [argv.join(' '), argv] as const))('receives no control characters from %s', (_name, argv) =>
    check([...argv, ...access()]),
  )

  it('receives no control characters from ask', () => check(['ask', 'hello', '--api', server.url]))

  it('receives no control characters from agent enroll', () =>
    check(['agent', 'enroll', '--id', 'd', '--token-file', join(dir.path, 'token'), '--state-dir', join(dir.path, 'agent')]))

  it('is protected from every command that talks to a bridge', async () => {
    const checked = new Set(commands.map((argv) => argv.join(' ')))
    const parts = ['bridge', 'device', 'fleet', 'job', 'login', 'logout', 'rollout', 'whoami']
    const all = (await Promise.all(parts.map((part) => leavesOf(menu, part)))).flat()
    expect(all.filter((name) => ![...checked, ...local].some((argv) => `${argv} `.startsWith(`${name} `)))).toEqual([])
  })
})

/** Command lines, without positionals, of the command or menu with this name. */
async function leavesOf(within: Menu, word: string): Promise<string[]> {
  const [, entry] = Object.entries(within.commands).find(([name]) => name.split(' ')[0] === word)!
  const loaded = await entry[1]()
  if ('command' in loaded) return [word]
  const words = Object.keys(loaded.menu.commands).map((name) => name.split(' ')[0]!)
  return (await Promise.all(words.map((one) => leavesOf(loaded.menu, one)))).flat().map((rest) => `${word} ${rest}`)
}
