import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { bridgeRoutes } from '../../../cloud-bridge/api/bridge.ts'
import { brokerHookRoutes } from '../../../cloud-bridge/api/broker-hooks.ts'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { projectRoot } from '../../../core/kit/base/version.ts'
import { buildBundle } from '../../../core/model/bundle/build.ts'
import { adminOperations } from '../../../core/wire/protocol/http/admin.ts'
import { answerOperations } from '../../../core/wire/protocol/http/answers.ts'
import { bridgeOperations } from '../../../core/wire/protocol/http/bridge.ts'
import { brokerHookOperations } from '../../../core/wire/protocol/http/broker-hooks.ts'
import { bundleOperations } from '../../../core/wire/protocol/http/bundles.ts'
import { deviceOperations, fleetOperations } from '../../../core/wire/protocol/http/devices.ts'
import { identityOperations } from '../../../core/wire/protocol/http/identity.ts'
import { jobOperations } from '../../../core/wire/protocol/http/jobs.ts'
import { type Operation, type ParamsOf, type QueryValues, urlOf } from '../../../core/wire/protocol/http/operation.ts'
import { allOperations } from '../../../core/wire/protocol/http/operations.ts'
import { pageOperations } from '../../../core/wire/protocol/http/page.ts'
import { releaseOperations } from '../../../core/wire/protocol/http/releases.ts'
import { rolloutOperations } from '../../../core/wire/protocol/http/rollouts.ts'
import { uploadOperations } from '../../../core/wire/protocol/http/uploads.ts'
import { whatIfOperations } from '../../../core/wire/protocol/http/what-if.ts'
import { NonceReply, signedBytes } from '../../../core/wire/protocol/identity.ts'
import { newSigningKey, readSigner, type SignatureFile } from '../../../core/wire/signing/signature.ts'
import type { Schema } from '../../../scripts/docs/asyncapi.ts'
import { fixtureDir } from '../../oracle/fixtures.ts'
import { type AgentWorld, startAgentWorld } from '../../support/agent-world.ts'
import { enrolDevice } from '../../support/enrol-device.ts'
import { startTestHttp } from '../../support/http.ts'
import { type Check, schemaCompiler, strictly } from '../../support/json-schemas.ts'
import { tempDir } from '../../support/temp-dir.ts'

type Content = Readonly<Record<string, { readonly schema?: Schema }>>
interface Described {
  readonly responses: Readonly<Record<string, { readonly content: Content }>>
}
const document = JSON.parse(readFileSync(new URL('docs/openapi.json', projectRoot), 'utf8')) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

let compile: (schema: Schema) => Check
const dir = tempDir()
let world: AgentWorld
let key: string
/** Operations whose responses have been compared with the document. */
const compared = new Set<Operation>()

beforeAll(async () => {
  const compiler = await schemaCompiler()
  const definitions = Object.fromEntries(
    Object.entries(document.components.schemas).map(([name, schema]) => [name, strictly(schema)]),
  )
  compile = (schema) =>
    compiler(
      JSON.parse(
        JSON.stringify({ ...strictly(schema), definitions }).replaceAll('#/components/schemas/', '#/definitions/'),
      ) as Schema,
    )
  const embedding = join(dir.path, 'embed')
  await buildBundle({ checkpoint: fixtureDir('llama'), out: embedding, embedding: 'mean', format: 'fp32' })
  world = await startAgentWorld({ bridge: { auth: true, embedding } })
  const store = openIdentityStore(join(world.dir, 'bridge'))
  key = store.createKey('operator:test', 'ada', 'admin', { requestsPerMinute: 1_000, jobsPerDay: 100 }).key
  await enrolDevice(world, store, 'orin')
  store.close()
  await world.startAgent({ id: 'orin', bridges: undefined })
})
afterAll(async () => {
  await world[Symbol.asyncDispose]()
  dir[Symbol.dispose]()
})

function documentedSchema({ path, method }: Operation, status: number, type: string): Schema {
  const template = path.replace(/:(\w+)/g, '{$1}').replace('*', '{path}')
  const responses = document.paths[template]?.[method.toLowerCase()]?.responses
  const schema = (responses?.[String(status)] ?? (status >= 400 ? responses?.default : undefined))?.content[type]?.schema
  if (!schema) throw new Error(`docs/openapi.json has no ${status} ${type} for ${method} ${path}`)
  return schema
}

interface Call {
  readonly query?: QueryValues
  readonly body?: unknown
  readonly headers?: Record<string, string>
  /** URL of the bridge; default: the world's. */
  readonly url?: string
}

function request<O extends Operation>(operation: O, params: ParamsOf<O>, { query, body, headers, url }: Call = {}) {
  return fetch((url ?? world.bridge.httpUrl) + urlOf(operation, params, query), {
    method: operation.method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    ...(operation.method === 'POST' ? { body: JSON.stringify(body ?? {}) } : {}),
  })
}

/** Calls an operation and compares the response with the document. @returns the body */
async function call<O extends Operation>(operation: O, params: ParamsOf<O>, options: Call = {}, expected?: number) {
  const response = await request(operation, params, options)
  const body = (await response.json()) as Record<string, unknown>
  expect([operation.path, response.status, body]).toEqual([operation.path, expected ?? operation.status ?? 200, body])
  expect(compile(documentedSchema(operation, response.status, 'application/json'))(body)).toEqual([])
  compared.add(operation)
  return body
}

/** Reads the first events of a stream and compares them with the document. */
async function stream<O extends Operation>(
  operation: O,
  params: ParamsOf<O>,
  count: number,
  query?: QueryValues,
): Promise<unknown[]> {
  const leave = new AbortController()
  const response = await fetch(world.bridge.httpUrl + urlOf(operation, params, query), {
    headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream' },
    signal: leave.signal,
  })
  expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/)
  const check = compile(documentedSchema(operation, 200, 'text/event-stream'))
  const events: unknown[] = []
  let text = ''
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk
    const whole = text.split('\n\n')
    text = whole.pop() ?? ''
    for (const event of whole) {
      const data = /^data: (.*)$/m.exec(event)?.[1]
      if (data !== undefined) events.push(JSON.parse(data))
    }
    if (events.length >= count) break
  }
  leave.abort()
  for (const event of events) expect(check(event)).toEqual([])
  compared.add(operation)
  return events
}

describe('docs/openapi.json describes the recorded responses of a bridge', () => {
  it('about itself', async () => {
    await call(bridgeOperations.health, {})
    await call(bridgeOperations.steps, {})
    await call(bridgeOperations.served, {})
    expect(await stream(bridgeOperations.served, {}, 1)).toHaveLength(1)
    const response = await request(bridgeOperations.metrics, {})
    const type = response.headers.get('content-type')!
    expect(document.paths['/metrics']?.get?.responses['200']?.content).toHaveProperty([type])
    expect(await response.text()).toContain('brim_build_info')
    compared.add(bridgeOperations.metrics)
  })

  it('about what the simulator would say', async () => {
    await call(whatIfOperations.situation, {})
    // Too little was asked here; test/cloud-bridge/what-if reads the events of a simulation.
    await call(whatIfOperations.run, {}, {}, 400)
  })

  it('about the processes that it consists of', async () => {
    await call(bridgeOperations.nodes, {}, {}, 400)
    // test/cloud-bridge/replica drains real ones.
    const loads = [{ node: 'a', links: 1, sessions: 2, isDraining: false }]
    const node = { describe: () => ({ primary: 'a', nodes: ['a', 'b'], loads, failure: null }), setDraining: async () => {} }
    const onEnd = vi.fn()
    const others = {
      ...{ health: () => ({}) as never, steps: () => [], served: () => ({}) as never, metrics: async () => '' },
      ...{ id: 'bridge-1', onEnd, clock: systemClock },
    }
    await using http = await startTestHttp([bridgeRoutes({ ...others, node })])
    for (const operation of [bridgeOperations.nodes, bridgeOperations.drain, bridgeOperations.undrain])
      await call(operation, { node: 'a' } as never, { url: http.url })
    await call(bridgeOperations.end, {}, { url: http.url }, 400)
    expect(onEnd).not.toHaveBeenCalled()
    await using alone = await startTestHttp([bridgeRoutes({ ...others, node: undefined })])
    await call(bridgeOperations.end, {}, { url: alone.url })
    expect(onEnd).toHaveBeenCalledOnce()
  })

  it('about its page', async () => {
    const response = await request(pageOperations.index, {})
    expect(document.paths['/']?.get?.responses['200']?.content).toHaveProperty([response.headers.get('content-type')!])
    expect((await request(pageOperations.file, { file: 'main.js' })).headers.get('content-type')).toContain('text/javascript')
    for (const operation of Object.values(pageOperations)) compared.add(operation)
  })

  it('about answers of its model', async () => {
    const messages = [{ role: 'user', content: 'Can you' }]
    await call(answerOperations.chat, {}, { body: { messages, max_tokens: 4, logprobs: true, top_logprobs: 1 } })
    await call(answerOperations.completion, {}, { body: { prompt: 'Can you', max_tokens: 4, n: 2, logprobs: 1 } })
    const asked = { input: 'Can you', max_output_tokens: 4, include: ['message.output_text.logprobs'] }
    const { id: response } = (await call(answerOperations.responses, {}, { body: asked })) as { id: string }
    await call(answerOperations.response, { id: response })
    await call(answerOperations.deleteResponse, { id: response })
    await call(answerOperations.response, { id: response }, {}, 404)
    await call(answerOperations.responses, {}, { body: { input: [] } }, 400)
    await call(answerOperations.embeddings, {}, { body: { input: ['Can you', 'You can'] } })
    await call(answerOperations.embeddings, {}, { body: { input: 'Can you', encoding_format: 'base64', dimensions: 4 } })
    await call(answerOperations.embeddings, {}, { body: { input: 7 } }, 400)
    await call(answerOperations.models, {})
    await call(answerOperations.model, { id: 'brim' })
    await call(answerOperations.model, { id: 'none' }, {}, 404)
    await call(answerOperations.chat, {}, { body: { messages: [] } }, 400)
    const body = { messages, max_tokens: 400, ignore_eos: true, stream: true }
    const interrupted = (await request(answerOperations.chat, {}, { body })).body!.getReader()
    const [, id = ''] = /^id: (.+)\/\d+$/m.exec(new TextDecoder().decode((await interrupted.read()).value)) ?? []
    await interrupted.cancel()
    expect(await stream(answerOperations.rest, { id }, 2)).not.toEqual([])
    await call(answerOperations.rest, { id: 'none' }, {}, 404)
  })

  it('about jobs', async () => {
    const job = { kind: 'hat.generate', input: { prompt: 'Can you', maxTokens: 4 }, device: 'orin' }
    const { id } = (await call(jobOperations.submit, {}, { body: job })) as { id: string }
    await expect.poll(async () => (await call(jobOperations.show, { id })).state, { timeout: 30_000 }).toBe('SUCCEEDED')
    await call(jobOperations.submit, {}, { body: { jobs: [job] } })
    await call(jobOperations.submit, {}, { body: { ...job, device: 'no-such-device' } }, 404)
    await call(jobOperations.list, {}, { query: { limit: 5 } })
    await call(jobOperations.events, { id })
    expect((await stream(jobOperations.events, { id }, 4)).at(-1)).toMatchObject({ type: 'end', job: { id } })
    const again = (await call(jobOperations.retry, { id })) as { id: string }
    await call(jobOperations.cancel, { id: again.id })
    await call(jobOperations.show, { id: 'none' }, {}, 404)
    await call(jobOperations.submit, {}, { body: { kind: 'none' } }, 400)
  })

  it('about devices and the fleet', async () => {
    const id = 'orin'
    await call(deviceOperations.label, { id }, { body: { set: { site: 'lab' } } })
    const command = (await call(deviceOperations.command, { id }, { body: { type: 'drain' } })) as { id: string }
    const shown = { id, command: command.id }
    expect(await call(deviceOperations.showCommand, shown, { query: { waitS: 20 } })).toMatchObject({ state: 'DONE' })
    await call(deviceOperations.command, { id }, { body: { type: 'logs', level: 'info', forS: 60 } })
    await call(deviceOperations.commands, { id })
    await call(deviceOperations.list, {})
    await expect.poll(async () => (await call(deviceOperations.show, { id })).telemetry).not.toBeNull()
    await expect.poll(async () => (await call(deviceOperations.telemetry, { id })).samples).not.toEqual([])
    await call(fleetOperations.status, {})
    await call(fleetOperations.summary, {})
    // Telemetry may follow at once.
    expect((await stream(fleetOperations.events, {}, 1))[0]).toMatchObject({ type: 'device' })
    expect((await stream(fleetOperations.rows, {}, 1))[0]).toMatchObject({ row: { labels: {} } })
    expect((await stream(deviceOperations.events, { id }, 1))[0]).toMatchObject({ type: 'device', device: id })
    await call(jobOperations.submit, {}, { body: { kind: 'slm.generate', input: { prompt: 'x' }, device: id } })
    await call(deviceOperations.command, { id }, { body: { type: 'undrain' } })
    await expect.poll(async () => (await call(deviceOperations.log, { id }, { query: { level: 'info' } })).lines).not.toEqual([])
    await stream(deviceOperations.log, { id }, 1, { level: 'info' })
    await call(deviceOperations.show, { id: 'no-such-device' }, {}, 404)
  })

  it('about rollouts', async () => {
    const submission = { kind: 'config.apply', input: { settings: {} }, selector: { devices: ['orin'] } }
    const dry = await call(rolloutOperations.create, {}, { body: { ...submission, dryRun: true } })
    expect(dry).toEqual({ rollout: null, devices: ['orin'] })
    const { rollout } = (await call(rolloutOperations.create, {}, { body: submission })) as { rollout: { id: string } }
    const { id } = rollout
    await call(rolloutOperations.pause, { id })
    await call(rolloutOperations.resume, { id })
    await call(rolloutOperations.abort, { id })
    await call(rolloutOperations.retry, { id }, {}, 400)
    await call(rolloutOperations.list, {}, { query: { limit: 1 } })
    expect(await call(rolloutOperations.show, { id })).toMatchObject({ id, createdBy: expect.stringContaining('key:ada/') })
    expect((await call(rolloutOperations.devices, { id })).devices).toMatchObject([{ place: 0, device: 'orin' }])
    await call(rolloutOperations.show, { id: 'none' }, {}, 404)
    await call(rolloutOperations.create, {}, { body: { ...submission, selector: { labels: {} } } }, 400)
    await call(rolloutOperations.create, {}, { body: { ...submission, selector: { groups: ['none'] } } }, 404)
    const bundle = { modelId: '0'.repeat(64), manifestSha256: '0'.repeat(64) }
    await call(rolloutOperations.create, {}, { body: { ...submission, kind: 'bundle.install', input: bundle } }, 404)
    const { audit } = (await call(adminOperations.audit, {}, { query: { limit: 20 } })) as { audit: { action: string }[] }
    expect(audit.map(({ action }) => action)).toEqual(
      expect.arrayContaining(['rollout.create', 'rollout.pause', 'rollout.abort']),
    )
  })

  it('about bundles', async () => {
    const { bundles } = (await call(bundleOperations.list, {})) as { bundles: { modelId: string }[] }
    const response = await request(bundleOperations.file, { modelId: bundles[0]!.modelId, '*': 'manifest.json' })
    expect(response.headers.get('content-type')).toBe('application/octet-stream')
    expect(await response.json()).toMatchObject({ modelId: bundles[0]!.modelId })
    compared.add(bundleOperations.file)
    const manifest = await (await request(bundleOperations.file, { modelId: bundles[0]!.modelId, '*': 'manifest.json' })).text()
    expect(await call(bundleOperations.publish, {}, { body: { manifest } })).toEqual({ missing: [] })
  })

  it('about releases and uploads', async () => {
    const archive = Buffer.from('an archive')
    const sha256 = createHash('sha256').update(archive).digest('hex')
    using dir = tempDir()
    const keyFile = join(dir.path, 'release.key')
    writeFileSync(keyFile, newSigningKey(), { mode: 0o600 })
    const signatures: SignatureFile = { v: 1, signatures: [readSigner(keyFile).sign('software', sha256)] }
    const body = { sha256, bytes: archive.length, version: '0.4.0', platform: 'linux-arm64', signatures }
    expect(await call(releaseOperations.publish, {}, { body })).toMatchObject({ missing: [{ uploadedBytes: 0 }] })
    // Not what the bridge has: nothing is appended.
    await call(uploadOperations.append, { sha256 }, { query: { from: 1 } })
    const uploaded = await fetch(world.bridge.httpUrl + urlOf(uploadOperations.append, { sha256 }, { from: 0 }), {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/octet-stream' },
      body: archive,
    })
    expect(await uploaded.json()).toEqual({ bytes: archive.length })
    expect(await call(releaseOperations.publish, {}, { body })).toEqual({ missing: [] })
    await call(releaseOperations.list, {})
    await call(releaseOperations.signature, { sha256 })
    const response = await request(releaseOperations.archive, { sha256 })
    expect([response.headers.get('content-type'), await response.text()]).toEqual(['application/octet-stream', 'an archive'])
    compared.add(releaseOperations.archive)
  })

  it('about administration', async () => {
    const tokenRequest = { group: 'lab', uses: 1, expiresS: 60, approve: false }
    const { token } = (await call(adminOperations.createToken, {}, { body: tokenRequest })) as { token: { id: string } }
    await call(adminOperations.revokeToken, { id: token.id })
    await call(adminOperations.tokens, {})
    const { id } = (await call(adminOperations.createKey, {}, { body: { name: 'ci', role: 'viewer' } })) as { id: string }
    await call(adminOperations.revokeKey, { id })
    await call(adminOperations.keys, {})
    await call(adminOperations.devices, {})
    await call(adminOperations.whoami, {})
    await call(adminOperations.audit, {}, { query: { limit: 5 } })
    await call(adminOperations.tls, {})
    // This bridge has no TLS; test/cloud-bridge/identity rotates the key of one that has.
    await call(adminOperations.announcePin, {}, { body: { pin: 'A'.repeat(43) } }, 400)
    await call(adminOperations.withdrawPin, { pin: 'A'.repeat(43) }, {}, 404)
    const { code } = (await call(adminOperations.createLogin, {})) as { code: string }
    await call(adminOperations.exchangeLogin, {}, { body: { code } })
    await call(adminOperations.exchangeLogin, {}, { body: { code } }, 404)
    await call(adminOperations.revokeKey, { id: 'none' }, {}, 404)
    await call(adminOperations.keys, {}, { headers: { authorization: 'Bearer none' } }, 401)
  })

  it('about the identity of a device', async () => {
    const body = { group: 'default', uses: 1, expiresS: 60, approve: true }
    const { secret } = (await call(adminOperations.createToken, {}, { body })) as { secret: string }
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    const proof = async (purpose: 'enroll' | 'session') => {
      const { nonce, bridge, fleet } = NonceReply.parse(await call(identityOperations.nonce, {}))
      const bytes = signedBytes({ purpose, nonce, bridge, fleet, device: 'nano' })
      return { v: 1, device: 'nano', nonce, signature: sign(null, bytes, privateKey).toString('base64url') }
    }
    const enrolment = { ...(await proof('enroll')), token: secret, publicKey: publicKey.export({ format: 'jwk' }).x }
    await call(identityOperations.enrol, {}, { body: enrolment })
    const { token: proven } = (await call(identityOperations.session, {}, { body: await proof('session') })) as { token: string }
    await call(identityOperations.subject, {}, { headers: { authorization: `Bearer ${proven}` } })
    // Its key is not due for renewal for months.
    const renewal = { ...(await proof('session')), publicKey: enrolment.publicKey, newSignature: 'A'.repeat(86) }
    await call(identityOperations.renewKey, {}, { body: renewal }, 401)
    await call(adminOperations.revokeDevice, { id: 'nano' })
    await call(adminOperations.approveDevice, { id: 'nano' })
    expect(await call(deviceOperations.remove, { id: 'nano' })).toEqual({ id: 'nano', canceledJobs: 0 })
  })

  it('to an external broker', async () => {
    const gate = { subjectOf: () => 'device-a', isPresent: () => true }
    await using http = await startTestHttp([brokerHookRoutes({ fleet: 'default', gate })])
    const { url } = http
    const topic = 'brim/v1/default/device/a/state'
    const [emqx, vernemq] = [
      { clientid: 'device-a', username: 'device-a' },
      { client_id: 'device-a', username: 'device-a' },
    ]
    await call(brokerHookOperations.emqxAuth, {}, { url, body: { ...emqx, password: 'token' } })
    await call(brokerHookOperations.emqxAcl, {}, { url, body: { ...emqx, action: 'publish', topic } })
    for (const hook of ['auth_on_register', 'auth_on_publish', 'auth_on_subscribe', 'on_publish']) {
      const body = { ...vernemq, topic, topics: [{ topic: '#', qos: 1 }] }
      await call(brokerHookOperations.vernemq, {}, { url, body, headers: { 'vernemq-hook': hook } })
    }
  })

  it('of every operation', () => {
    const all = Object.values(allOperations).flatMap((group) => Object.values(group))
    expect(all.filter((operation) => !compared.has(operation)).map(({ method, path }) => `${method} ${path}`)).toEqual([])
  })
})
