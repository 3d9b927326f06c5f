import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { run } from '../brim.ts'
import type { Operation } from '../core/wire/protocol/http/operation.ts'
import { allOperations } from '../core/wire/protocol/http/operations.ts'
import { invitationText } from '../core/wire/protocol/identity.ts'
import { onLoopback } from '../lab/cluster/loopback-server.ts'
import { captureIo } from './support/captured-io.ts'
import { mutated, valid } from './support/messages.ts'
import { shared } from './support/shared.ts'
import { tempDir } from './support/temp-dir.ts'
import { tinyBundle } from './support/tiny-bundle.ts'

const runs = { numRuns: 25, seed: 14 }
const dir = shared(tempDir)
const bundle = shared(tinyBundle)

/** Runs a command on something broken: it works, or fails with an error that a person can read. */
async function expectReadable(argv: readonly string[], stopAfterMs?: number): Promise<void> {
  const stop = new AbortController()
  const { io, err } = captureIo({ env: { HOME: join(dir.path, 'home') }, signal: stop.signal })
  const timer = stopAfterMs === undefined ? undefined : setTimeout(() => stop.abort(new Error('enough')), stopAfterMs)
  const code = await run(argv, io)
  clearTimeout(timer)
  const text = err()
  if (code !== 0 && !stop.signal.aborted) expect(text, argv.join(' ')).toMatch(/^error: .+ \[[A-Z_]+\]$/m)
  if (!stop.signal.aborted) expect(text, argv.join(' ')).not.toMatch(/\[INTERNAL\]/)
  // A schema's own message is a document like [{"code": …, "path": …}].
  expect(text, argv.join(' ')).not.toMatch(/"(?:path|code|expected)":/)
  expect(text).not.toMatch(/^\s+at /m)
}

/** Changed copies of a JSON document. */
const broken = (document: unknown) => mutated(fc.constant(document as fc.JsonValue))

describe('a broken file ends in an error that a person can read:', () => {
  it.each(['manifest.json', 'input.golden.json'])('%s of a bundle', async (name) => {
    const path = join(bundle.path, name)
    const original = readFileSync(path)
    const check = fc.asyncProperty(broken(JSON.parse(original.toString())), async (bytes) => {
      writeFileSync(path, bytes)
      await expectReadable(['model', 'inspect', bundle.path])
    })
    await fc.assert(check, runs).finally(() => writeFileSync(path, original))
  })

  it('config.json of a checkpoint', async () => {
    const checkpoint = join(dir.path, 'checkpoint')
    mkdirSync(checkpoint)
    writeFileSync(join(checkpoint, 'model.safetensors'), 'x')
    const config = {
      architectures: ['LlamaForCausalLM'],
      model_type: 'llama',
      hidden_size: 64,
      num_hidden_layers: 2,
      vocab_size: 32,
    }
    const check = fc.asyncProperty(broken(config), async (bytes) => {
      writeFileSync(join(checkpoint, 'config.json'), bytes)
      await expectReadable(['model', 'build', checkpoint, '--split', '1', '--out', join(dir.path, 'out')])
    })
    await fc.assert(check, runs)
  })

  it('the logins of an operator', async () => {
    const folder = join(dir.path, 'home/.config/brim')
    mkdirSync(folder, { recursive: true })
    const logins = { v: 1, current: 'default', logins: { default: { url: 'http://127.0.0.1:1', key: 'k', pin: 'p' } } }
    const check = fc.asyncProperty(broken(logins), async (bytes) => {
      writeFileSync(join(folder, 'logins.json'), bytes, { mode: 0o600 })
      await expectReadable(['whoami'])
      await expectReadable(['logout'])
    })
    await fc.assert(check, runs).finally(() => writeFileSync(join(folder, 'logins.json'), '{"v":1,"current":null,"logins":{}}'))
  })

  it('an enrolment, and the key of a device', async () => {
    const folder = join(dir.path, 'home/.local/state/brim/agents/d/identity')
    mkdirSync(folder, { recursive: true })
    const enrolments = [{ url: 'http://127.0.0.1:1', mqttUrl: 'mqtt://127.0.0.1:1', bridge: 'b', fleet: 'default', device: 'd' }]
    const token = join(dir.path, 'token')
    writeFileSync(token, invitationText({ url: 'http://127.0.0.1:1', id: '00000000', secret: 'x'.repeat(43) }), { mode: 0o600 })
    const check = fc.asyncProperty(broken(enrolments), broken('key'), async (bytes, key) => {
      writeFileSync(join(folder, 'enrolments.json'), bytes, { mode: 0o600 })
      writeFileSync(join(folder, 'device-key.pem'), key, { mode: 0o600 })
      await expectReadable(['agent', 'enroll', '--id', 'd', '--token-file', token])
    })
    await fc.assert(check, runs)
  })

  it('a token, an API key, and the input of a job', async () => {
    const file = join(dir.path, 'file')
    const check = fc.asyncProperty(broken({ prompt: 'a' }), fc.boolean(), async (bytes, isToken) => {
      writeFileSync(file, bytes, { mode: 0o600 })
      await expectReadable(['agent', 'enroll', '--id', 'e', '--token-file', file])
      writeFileSync(file, `brim1.${bytes.toString(isToken ? 'base64url' : 'utf8')}`, { mode: 0o600 })
      await expectReadable(['agent', 'enroll', '--id', 'e', '--token-file', file])
      await expectReadable(['job', 'submit', 'slm.generate', '--input', `@${file}`, '--bridge-url', 'http://127.0.0.1:1'])
      await expectReadable(['whoami', '--key-file', file, '--bridge-url', 'http://127.0.0.1:1'])
    })
    await fc.assert(check, runs)
  })
})

describe('a broken response of a bridge ends in an error that a person can read:', () => {
  const operations = Object.values(allOperations).flatMap((group) => Object.values(group)) as Operation[]
  let seed = 1
  let requests = 0
  let event: string | undefined
  const sampleOf = (schema: z.ZodType): Buffer => {
    const json = z.toJSONSchema(schema, { io: 'output', unrepresentable: 'any' }) as Parameters<typeof valid>[0]
    requests += 1
    // A command that fails at its first request makes no second one.
    const isBroken = (seed + requests) % 2 === 0
    return isBroken
      ? fc.sample(mutated(valid(json)), { seed, numRuns: 1 })[0]!
      : Buffer.from(JSON.stringify(fc.sample(valid(json), { seed, numRuns: 1 })[0]))
  }
  const brokenServer = createServer(({ method, url = '', headers }, response) => {
    const isOperation = (one: Operation) =>
      one.method === method && new RegExp(`^${one.path.replace(/:\w+/g, '[^/]+').replace('*', '.+')}$`).test(url.split('?')[0]!)
    const operation = operations.find(isOperation)
    const stream = headers.accept === 'text/event-stream' ? operation?.event : undefined
    response.writeHead(200, { 'content-type': stream ? 'text/event-stream' : 'application/json' })
    if (stream && event !== undefined) response.end(`data: ${event}\n\n`)
    else if (stream) response.end(`data: ${sampleOf(stream).toString().replaceAll('\n', ' ')}\n\n`)
    else response.end(operation?.response ? sampleOf(operation.response) : '{}')
  })
  const server = shared(() => onLoopback(brokenServer))
  let url = ''
  beforeAll(() => {
    url = `http://127.0.0.1:${server.port}`
    writeFileSync(join(dir.path, 'key'), 'k', { mode: 0o600 })
  })

  it.each([
    'bridge audit',
    'bridge key list',
    'bridge key create --name ada',
    'bridge token list',
    'bridge token create',
    'device drain d',
    'device label d',
    'device list',
    'device logs d --follow',
    'device show d',
    'device watch',
    'fleet status',
    'fleet status --watch',
    'job list',
    'job show 1',
    'job submit profile --device d --watch',
    'job submit bundle.install --device d --model m',
    'job watch 1',
    'whoami',
  ])('%s', async (command) => {
    const access = ['--bridge-url', url, '--key-file', join(dir.path, 'key')]
    for (seed = 1; seed <= 16; seed += 1) await expectReadable([...command.split(' '), ...access], 150)
  })

  it.each([
    '{not JSON',
    '{"type":"progress","seq":1,"at":"2031-05-04T09:30:00.125Z","attempt":1,"device":null,"data":{"doneBytes":"many"}}',
  ])('the event %s', async (text) => {
    event = text
    const access = ['--bridge-url', url, '--key-file', join(dir.path, 'key')]
    for (const command of ['job watch 1', 'device watch', 'device logs d --follow', 'fleet status --watch'])
      for (seed = 1; seed <= 4; seed += 1) await expectReadable([...command.split(' '), ...access], 200)
    event = undefined
  })

  it('agent enroll, ask', async () => {
    const token = join(dir.path, 'token-of-server')
    writeFileSync(token, invitationText({ url, id: '00000000', secret: 'x'.repeat(43) }), { mode: 0o600 })
    for (seed = 1; seed <= 16; seed += 1) {
      await expectReadable(['agent', 'enroll', '--id', 'f', '--token-file', token])
      await expectReadable(['ask', 'hello', '--api', url])
    }
  })
})
