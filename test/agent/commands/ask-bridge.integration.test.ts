import { once } from 'node:events'
import { chmodSync, copyFileSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer as createPlain } from 'node:http'
import { createServer as createTls } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { addLogin } from '../../../core/kit/login/logins.ts'
import { readRecording } from '../../../core/wire/openai/recorded-answer.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { startTestBridge, type TestBridge } from '../../support/bridge.ts'
import { captureIo } from '../../support/captured-io.ts'
import { runBrim } from '../../support/run-brim.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const fixture = (name: string) => fileURLToPath(new URL(`../../fixtures/tls/${name}.pem`, import.meta.url))

const dir = shared(tempDir)
let bridge: TestBridge
let key: string
beforeAll(async () => {
  const tls = { cert: fixture('first.cert'), key: join(dir.path, 'key.pem') }
  copyFileSync(fixture('first.key'), tls.key)
  chmodSync(tls.key, 0o600)
  const bundle = await buildTextBundle(dir.path, { adapter: false })
  bridge = await startTestBridge({ bundle, stateDir: join(dir.path, 'bridge'), auth: true, tls })
  key = await newKey('app')
  expect(await brim(['login', '--bridge', bridge.httpUrl, '--pin', bridge.pin!, '--name', 'prod'], key)).toMatchObject({
    code: 0,
  })
})
afterAll(() => bridge.close())

const env = () => ({ HOME: join(dir.path, 'home') })

const brim = (argv: readonly string[], stdin = '') => runBrim(argv, { env: env(), stdin })

async function newKey(name: string): Promise<string> {
  const argv = ['bridge', 'key', 'create', '--name', name, '--role', 'client', '--state-dir', join(dir.path, 'bridge')]
  return (await brim(argv)).out.trim()
}

const ask = (...more: string[]) => brim(['ask', 'Where does the river rise?', '--max-tokens', '6', ...more])

/** What a server of another kind is asked. */
async function listening(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

describe('brim ask --bridge, at a bridge with TLS', () => {
  it("takes a login's name, or its URL, with its key and its pin", async () => {
    const named = await ask('--bridge', 'prod')
    expect(named).toMatchObject({ code: 0, err: expect.stringContaining('TTFT') })
    expect(named.err).not.toContain('accept length')
    expect(named.out.length).toBeGreaterThan(6)
    for (const given of [bridge.httpUrl, `${bridge.httpUrl}/`]) expect((await ask('--bridge', given)).out).toBe(named.out)
    expect(JSON.parse((await ask('--bridge-url', 'prod', '--json')).out)).toMatchObject({ mode: 'bridge', tokens: 6 })
  })

  it('uses a key that is given rather than the one of the login', async () => {
    const file = join(dir.path, 'other.key')
    writeFileSync(file, 'not-a-key-of-this-bridge', { mode: 0o600 })
    expect((await ask('--bridge', 'prod', '--api-key-file', file)).err).toContain('NOT_AUTHORIZED')
    writeFileSync(file, await newKey('second'))
    expect(await ask('--bridge', 'prod', '--key-file', file)).toMatchObject({ code: 0 })
  })

  it('records the question and what came, with its times, in a file of this user', async () => {
    const file = join(dir.path, 'answer.jsonl')
    const answered = await ask('--bridge', 'prod', '--record', file, '--tokens-per-s', '5')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const [recorded, ...others] = readRecording(readFileSync(file, 'utf8'))
    expect(others).toEqual([])
    expect(recorded).toMatchObject({ question: 'Where does the river rise?', mode: '', tokensPerS: 5 })
    const { events } = recorded!
    const texts = events.flatMap((event) => (event.event === 'text' ? [event] : []))
    expect(`${texts.map(({ text }) => text).join('')}\n`).toBe(answered.out)
    expect(texts.at(-1)!.tokens).toBe(6)
    const times = events.map(({ atMs }) => atMs)
    expect(times).toEqual(times.toSorted((one, other) => one - other))
    expect(events.at(-1)).toMatchObject({ event: 'complete', usage: { completion_tokens: 6 } })
  })

  it('records why there is no answer, and asks nothing where the file cannot be written', async () => {
    const file = join(dir.path, 'failed.jsonl')
    expect(await ask('--bridge', 'prod', '--record', file, '--model', 'none')).toMatchObject({ code: 1 })
    expect(readRecording(readFileSync(file, 'utf8'))[0]!.events).toMatchObject([
      { event: 'failed', message: expect.stringMatching(/none/) },
    ])
    writeFileSync(join(dir.path, 'file'), '')
    expect((await ask('--bridge', 'prod', '--record', join(dir.path, 'file', 'answer.jsonl'))).err).toContain('TARGET_UNWRITABLE')
  })

  it('sends neither key nor question to a server with another key than the pinned one', async () => {
    let connections = 0
    let bytes = 0
    const other = createTls({ cert: readFileSync(fixture('second.cert')), key: readFileSync(fixture('second.key')) })
    other.on('connection', () => connections++)
    other.on('secureConnection', (socket) => socket.on('data', (data: Buffer) => (bytes += data.length)))
    const host = await listening(other)
    addLogin(captureIo({ env: env() }).io, 'moved', { url: `https://${host}`, key, pin: bridge.pin! })
    const { code, err } = await ask('--bridge', 'moved')
    await new Promise((closed) => other.close(closed))
    expect(code).toBe(1)
    expect(err).toMatch(/does not match the pinned key \[IDENTITY_INVALID\]\n.*try: .*log in again/)
    expect([connections, bytes]).toEqual([1, 0])
  })

  it('without a pin trusts the certificates of this system, and says how to pin', async () => {
    addLogin(captureIo({ env: env() }).io, 'unpinned', { url: bridge.httpUrl.replace('127.0.0.1', 'localhost'), key })
    const { code, err } = await ask('--bridge', 'unpinned')
    expect(code).toBe(1)
    expect(err).toMatch(/no bridge responds at https:\/\/localhost:\d+ \[BRIDGE_UNREACHABLE\]\n.*\n.*try: .*brim login --pin/)
  })
})

describe('brim ask --bridge says what to do', () => {
  it.each([
    [
      ['--bridge', 'nowhere'],
      /--bridge-url nowhere is neither a URL nor the name of a login \[USAGE\]\n.*try: .*http:.*brim login --name/,
    ],
    [['--bridge', 'mqtt://127.0.0.1:1883'], /neither a URL nor.*\[USAGE\]/],
    [['--mode', 'full'], /--mode full is for answers of a bridge.*\[USAGE\]\n.*try: add --bridge/],
    [['--bridge', 'prod', '--api', 'http://127.0.0.1:7071'], /bridge-url and api are mutually exclusive/],
    [['--api', 'localhost:7071'], /--api.*HTTP URL/],
  ])('for %j', async (more, message) => {
    const { code, err } = await ask(...more)
    expect(code).toBe(2)
    expect(err).toMatch(message)
  })

  it('where nothing listens, and where another server does', async () => {
    const other = createPlain((_request, response) => response.setHeader('content-type', 'text/html').end('<html>'))
    const url = `http://${await listening(other)}`
    expect((await ask('--bridge', url)).err).toMatch(
      /status 200, but is no bridge.*\[BRIDGE_UNREACHABLE\]\n.*try: check --bridge/,
    )
    other.close()
    expect((await ask('--bridge', url)).err).toMatch(
      /no bridge responds at.*\[BRIDGE_UNREACHABLE\]\n.*why: .*ECONNREFUSED.*\n.*--bridge/,
    )
    expect((await ask('--bridge', bridge.httpUrl.replace('https', 'http'))).err).toMatch(/speaks TLS.*\n.*\n.*try: use https:/)
  })
})
