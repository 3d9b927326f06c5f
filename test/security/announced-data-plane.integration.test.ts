import { chmodSync, copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Agent } from '../../agent/agent.ts'
import { enrol } from '../../agent/identity/enrolment.ts'
import { openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import { invitationText } from '../../core/wire/protocol/identity.ts'
import type { BridgeState } from '../../core/wire/protocol/messages.ts'
import { bridgeStateTopic, deviceTopic } from '../../core/wire/protocol/topics.ts'
import { onLoopback } from '../../lab/cluster/loopback-server.ts'
import { startRelay } from '../../lab/cluster/relay.ts'
import { type AgentWorld, startAgentWorld } from '../support/agent-world.ts'
import { mqttClient } from '../support/broker.ts'
import { postJson } from '../support/post-json.ts'
import { startOpenBroker } from '../support/served-broker.ts'
import { fresh, shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/tls/${name}.pem`, import.meta.url))

/** A server that an attacker announces as a data plane; it records what it is sent. */
async function startThief() {
  const received: { url: string | undefined; headers: IncomingHttpHeaders }[] = []
  const server = createServer(({ url, headers }, response) => {
    received.push({ url, headers })
    response.writeHead(404).end()
  })
  server.on('upgrade', ({ url, headers }, socket) => {
    received.push({ url, headers })
    socket.destroy()
  })
  const { port, ...open } = await onLoopback(server)
  return { ...open, received, dataUrl: `ws://127.0.0.1:${port}/v1/data` }
}

interface Answer {
  readonly status: number
  readonly code: string | undefined
}

describe.each([{ tls: true }, { tls: false }])(
  'a device that has enrolled (TLS: $tls), on a broker of an attacker',
  ({ tls }) => {
    const dir = shared(tempDir)
    let world: AgentWorld
    const broker = fresh(startOpenBroker)
    const thief = fresh(startThief)
    let device: string
    let agent: Agent | undefined
    beforeAll(async () => {
      const files = { cert: join(dir.path, 'cert.pem'), key: join(dir.path, 'key.pem') }
      copyFileSync(fixture('first.cert'), files.cert)
      copyFileSync(fixture('first.key'), files.key)
      chmodSync(files.key, 0o600)
      world = await startAgentWorld({ adapter: false, bridge: { auth: true, ...(tls ? { tls: files } : {}) } })
    })
    afterAll(() => world[Symbol.asyncDispose]())
    let devices = 0
    beforeEach(async () => {
      device = `victim-${++devices}`
      await enrolAtBroker()
    })
    afterEach(async () => {
      await agent?.close()
      agent = undefined
    })

    const stateDir = () => join(world.dir, device)

    /** Enrols at the real bridge, whose control plane the attacker has taken over. */
    async function enrolAtBroker(): Promise<void> {
      const { httpUrl: url, pin } = world.bridge
      const store = openIdentityStore(join(world.dir, 'bridge'))
      const { token, secret } = store.createToken('operator:test', { group: 'default', uses: 1, expiresS: 60, approve: true })
      store.close()
      const invitation = invitationText({ url, id: token.id, secret, ...(pin === undefined ? {} : { pin }) })
      await enrol({ stateDir: stateDir(), device, token: invitation, replace: false })
      const file = join(stateDir(), 'identity', 'enrolments.json')
      const [enrolment] = JSON.parse(readFileSync(file, 'utf8')) as object[]
      writeFileSync(file, JSON.stringify([{ ...enrolment, mqttUrl: broker.url, foreignBroker: true }]))
    }

    /** A client of the attacker that has announced these bridges. */
    async function announce(states: Readonly<Record<string, Partial<BridgeState>>>) {
      const client = await mqttClient(broker.url, 'attacker')
      const state = { v: 1, state: 'ready', birth: 1_000_000, at: new Date().toISOString(), modelId: world.bridge.modelId }
      for (const [bridge, fields] of Object.entries(states)) {
        const message = JSON.stringify({ ...state, ...fields })
        await client.publishAsync(bridgeStateTopic('default', bridge), message, { qos: 1, retain: true })
      }
      return Object.assign(client, { [Symbol.asyncDispose]: () => client.endAsync(true) })
    }

    async function ask(apiUrl: string): Promise<Answer> {
      const response = await postJson(`${apiUrl}/v1/completions`, { prompt: [5, 6, 7], max_tokens: 2, temperature: 0 })
      const { error } = (await response.json()) as { error?: { code: string } }
      return { status: response.status, code: error?.code }
    }

    async function start(dataUrl?: string): Promise<Agent> {
      agent = await world.startAgent({ id: device, bridges: undefined, dataUrl, patienceS: 0.2 })
      return agent
    }

    it('goes to the data plane of its bridge, whatever address is announced for that bridge', async () => {
      await using _ = await announce({ 'bridge-1': { data: thief.dataUrl } })
      const { apiUrl } = await start()
      expect(await ask(apiUrl)).toEqual({ status: 200, code: undefined })
      expect(thief.received).toEqual([])
    })

    it('ignores bridges at which it has not enrolled', async () => {
      await using _ = await announce({ 'bridge-0': { data: thief.dataUrl }, another: { data: world.bridge.dataUrl } })
      const { apiUrl } = await start()
      expect(await ask(apiUrl)).toMatchObject({ status: 503, code: 'BRIDGE_UNREACHABLE' })
      expect(thief.received).toEqual([])
    })

    it('downloads bundles from its bridge, not from an announced address', async () => {
      await using attacker = await announce({ 'bridge-1': { data: thief.dataUrl } })
      await start()
      const failures: string[] = []
      attacker.on('message', (_topic, payload) => {
        const event = JSON.parse(payload.toString()) as { type: string; error?: { message: string } }
        if (event.type === 'failed') failures.push(event.error?.message ?? '')
      })
      await attacker.subscribeAsync(deviceTopic('default', device, 'events'))
      const input = { modelId: 'ab'.repeat(32), manifestSha256: 'cd'.repeat(32) }
      const job = { v: 1, type: 'run', bridge: 'bridge-1', job: '00000000-1', attempt: 1, kind: 'bundle.install', input }
      await expect
        .poll(async () => {
          // The device may not have subscribed yet; it runs an attempt once, however often it is sent.
          await attacker.publishAsync(deviceTopic('default', device, 'jobs'), JSON.stringify(job), { qos: 1 })
          return failures[0]
        })
        .toContain(new URL(world.bridge.httpUrl).host)
      expect(thief.received).toEqual([])
    })

    it('goes to the data plane that its configuration names', async () => {
      await using tunnel = await startRelay(Number(new URL(world.bridge.dataUrl).port))
      await using _ = await announce({ 'bridge-1': { data: thief.dataUrl } })
      const dataUrl = world.bridge.dataUrl.replace(/:\d+\//, `:${tunnel.port}/`)
      const { apiUrl } = await start(dataUrl)
      expect(await ask(apiUrl)).toEqual({ status: 200, code: undefined })
      expect(await (await fetch(`${apiUrl}/health`)).json()).toMatchObject({ dataUrl })
      expect(thief.received).toEqual([])
    })

    it.runIf(tls)('does not start with a configured data plane without TLS', async () => {
      await expect(start(thief.dataUrl)).rejects.toMatchObject({ code: 'CONFIG_INVALID' })
      expect(thief.received).toEqual([])
    })
  },
)
