import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import type { Agent } from '../../../agent/agent.ts'
import { loadTextModel } from '../../../core/answer/endpoint/text-model.ts'
import { readManifest } from '../../../core/model/bundle/bundle.ts'
import { ensureDemoBundle } from '../../../lab/cluster/demo-bundles.ts'
import { portOf, startRelay } from '../../../lab/cluster/relay.ts'
import { buildSlmBundle, startAgentWorld } from '../../support/agent-world.ts'
import { askStreaming, question } from '../../support/ask-streaming.ts'
import { ask } from '../../support/asking-agent.ts'
import { startTestBridge, type TestBridge } from '../../support/bridge.ts'
import { shared } from '../../support/shared.ts'

const prompt = Array.from({ length: 20 }, (_, at) => 3 + at)
const tokens = 400

const world = shared(startAgentWorld)
const relay = shared(() => startRelay(1))
let bridge: TestBridge
let agent: Agent
beforeAll(async () => {
  // Device and bridge keep their control connection: what breaks is the data plane, and the bridge's HTTP with it.
  const dataUrl = `ws://127.0.0.1:${relay.port}/v1/data`
  bridge = await startTestBridge({ bundle: world.bundle, stateDir: join(world.dir, 'cut-bridge'), dataUrl })
  relay.target = portOf(bridge.httpUrl)
  agent = await startAgent('cut', await buildSlmBundle(world.dir, 150))
})
afterAll(() => bridge.close())

async function startAgent(id: string, slm: string): Promise<Agent> {
  const server = { at: 'bridge' as const }
  const links = { bridges: [bridge.mqttUrl], patienceS: 0.1, reconnectMaxS: 1 }
  const started = await world.startAgent({ id, slms: [slm], server, ...links, limits: { serverRetries: 0 } })
  await isLinked(started)
  return started
}

const isLinked = ({ apiUrl }: Agent) =>
  vi.waitFor(async () => expect((await fetch(`${apiUrl}/ready`)).status).toBe(200), { timeout: 30_000 })

/**
 * Breaks the link under an answer.
 * @param restoreAfter so many more pieces of text: more than were on their way, so that the small model writes by then
 */
async function cutUnder(mode: string, device = agent, asked: object = { prompt }, restoreAfter = 15) {
  await isLinked(device)
  const { target } = relay
  const endless = { ...asked, max_tokens: tokens, ignore_eos: true }
  const answer = await askStreaming(device, { mode, fallback: 'slm', token_ids: true }, endless, (pieces) => {
    if (pieces === 3) {
      relay.target = 1
      relay.cut()
    }
    if (pieces === 3 + restoreAfter) relay.target = target
  })
  relay.target = target
  return answer
}

it.each([
  ['private', 'hat'],
  ['cloud', 'bridge'],
])('an answer in mode %s goes on with the small model while the link is lost, and returns', async (mode, source) => {
  const { report, sources } = await cutUnder(mode)
  expect([sources, report.fallback]).toMatchObject([[source, 'slm', source], { code: expect.any(String) }])
  expect(report.disco.migrations).toMatchObject([
    // An answer of the bridge's own model would be resumed, but not as soon as the small model can go on.
    { from: 'server', to: 'device', reason: mode === 'cloud' ? 'silence' : 'failure', succeeded: true },
    { from: 'device', to: 'server', reason: 'return', succeeded: true },
  ])
  // After the same tokens of the small model, and the next request there from its start.
  const ids = report.tokenIds!
  expect(ids).toHaveLength(tokens)
  const { from } = report.sources[2]!
  const asked = { prompt: [...prompt, ...ids.slice(0, from)], max_tokens: 20, ignore_eos: true }
  const next = await askStreaming(agent, { mode, token_ids: true }, asked)
  expect([next.sources, next.report.fallback]).toEqual([[source], null])
  expect(next.report.tokenIds).toEqual(ids.slice(from, from + 20))
})

it('needs one connection for hidden states and one for requests, however many answers are asked for', async () => {
  const linked = relay.connections.length
  for (const mode of ['cloud', 'private', 'cloud', 'sketch', 'cloud', 'private', 'cloud'])
    expect(await ask(agent, { mode })).toMatchObject({ status: 200 })
  expect(relay.connections.length - linked).toBeLessThanOrEqual(1)
  expect(relay.connections.filter(({ isOpen }) => isOpen)).toHaveLength(2)
})

it('an answer that loses its link goes on in the same text where vocabularies differ', async () => {
  const other = await startAgent('other', await ensureDemoBundle('slm-other'))
  const { report, sources, text } = await cutUnder('cloud', other, { messages: question }, tokens)
  expect(sources).toEqual(['bridge', 'slm'])
  const { from } = report.sources[1]!
  const { tokenizer } = await loadTextModel(world.bundle, await readManifest(world.bundle))
  const detokenizer = tokenizer.detokenizer()
  const before = report
    .tokenIds!.slice(0, from)
    .map((id) => detokenizer.push(id))
    .join('')
  const messages = [...question, { role: 'assistant', content: before }]
  const rest = { messages, continue_final_message: true, max_tokens: tokens - from, ignore_eos: true }
  expect(text).toBe(before + (await askStreaming(other, { mode: 'local' }, rest)).text)
})
