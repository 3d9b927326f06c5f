import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import { buildTextBundle } from '../support/agent-world.ts'
import { healthOf, startTestBridge, type TestBridge } from '../support/bridge.ts'
import { enrolDevice } from '../support/enrol-device.ts'
import { postJson } from '../support/post-json.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

const question = { messages: [{ role: 'user', content: 'Where does the river rise?' }], temperature: 0, max_tokens: 4 }

const dir = shared(tempDir)
let bundle: string
beforeAll(async () => {
  bundle = await buildTextBundle(dir.path, { adapter: false })
})

function withStore<T>(name: string, act: (store: ReturnType<typeof openIdentityStore>) => T): T {
  const store = openIdentityStore(join(dir.path, name))
  const result = act(store)
  if (result instanceof Promise) return result.finally(() => store.close()) as T
  store.close()
  return result
}

const enrolled = (bridge: TestBridge, name: string, device: string) =>
  withStore(name, (store) => enrolDevice({ dir: dir.path, bridge }, store, device, `${name}-${device}`))

const ask = (bridge: TestBridge, token: string, body: object = question, signal: AbortSignal | null = null) =>
  postJson(`${bridge.httpUrl}/v1/chat/completions`, body, { authorization: `Bearer ${token}` }, signal)

describe('an enrolled device', () => {
  let bridge: TestBridge
  beforeAll(async () => {
    const limits = { deviceAnswersPerMinute: 6 }
    bridge = await startTestBridge({ bundle, stateDir: join(dir.path, 'open'), auth: true, limits })
  })
  afterAll(() => bridge.close())

  it("is answered by the bridge's model, and sees nothing else", async () => {
    const token = await (await enrolled(bridge, 'open', 'jetson-01')).token()
    expect((await ask(bridge, token)).status).toBe(200)
    for (const path of ['/v1/devices', '/v1/jobs', '/v1/fleet', '/v1/steps']) {
      const response = await fetch(bridge.httpUrl + path, { headers: { authorization: `Bearer ${token}` } })
      expect([path, response.status]).toEqual([path, 401])
    }
  })

  it('asks no more often than its rate, and takes nothing from that of another device', async () => {
    const token = await (await enrolled(bridge, 'open', 'jetson-02')).token()
    const other = await (await enrolled(bridge, 'open', 'jetson-03')).token()
    const statuses: number[] = []
    for (let request = 0; request < 7; request++) statuses.push((await ask(bridge, token, { messages: [] })).status)
    expect(statuses).toEqual([...Array<number>(6).fill(400), 429])
    expect((await ask(bridge, other)).status).toBe(200)
  })

  it('has each answer of a request counted, and is told to ask for fewer where its rate never allows so many', async () => {
    const token = await (await enrolled(bridge, 'open', 'jetson-07')).token()
    expect((await ask(bridge, token, { ...question, n: 4 })).status).toBe(200)
    expect((await ask(bridge, token, { ...question, n: 3 })).status).toBe(429)
    const tooMany = await ask(bridge, token, { ...question, n: 100 })
    expect([tooMany.status, tooMany.headers.get('retry-after')]).toEqual([429, null])
  })

  it('is given no answer of another device, nor the rest of one', async () => {
    const own = await (await enrolled(bridge, 'open', 'jetson-04')).token()
    const other = await (await enrolled(bridge, 'open', 'jetson-05')).token()
    const answer = await ask(bridge, own, { ...question, stream: true })
    const [, id] = /"id":"([^"]+)"/.exec(await answer.text()) ?? []
    const rest = (token: string) =>
      fetch(`${bridge.httpUrl}/v1/answers/${id}/events`, { headers: { authorization: `Bearer ${token}` } })
    expect((await rest(other)).status).toBe(404)
    expect((await rest(own)).status).toBe(200)
  })

  it('that is revoked gets no further token of an answer under way, and no other answer', async () => {
    const token = await (await enrolled(bridge, 'open', 'jetson-06')).token()
    const long = { ...question, stream: true, ignore_eos: true, max_tokens: 400, brim: { tokens_per_s: 1 } }
    const answer = await ask(bridge, token, long)
    expect(answer.status).toBe(200)
    withStore('open', (store) => store.revoke('operator:test', 'jetson-06'))
    expect((await ask(bridge, token)).status).toBe(401)
    await answer.text().catch(() => {})
    await expect.poll(async () => (await healthOf(bridge)).kvBytes).toBe(0)
  })
})

it('an enrolled device is refused by name where the operator does not want its questions', async () => {
  const bridge = await startTestBridge({ bundle, stateDir: join(dir.path, 'closed'), auth: true, deviceAnswers: false })
  try {
    const token = await (await enrolled(bridge, 'closed', 'jetson-01')).token()
    const response = await ask(bridge, token)
    expect([response.status, await response.json()]).toMatchObject([403, { error: { code: 'FORBIDDEN' } }])
  } finally {
    await bridge.close()
  }
})
