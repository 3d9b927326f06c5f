import { afterAll, beforeAll, expect, it } from 'vitest'
import { streamAnswerFrom } from '../../../core/wire/openai/client.ts'
import { strategies } from '../../../lab/bench/hat/strategies.ts'
import { askAgent } from '../../../lab/cluster/ask-agent.ts'
import { type BridgeNode, Cluster } from '../../../lab/cluster/cluster.ts'
import { ensureDemoBundle } from '../../../lab/cluster/demo-bundles.ts'
import { laboratoryProgram as program } from '../../../lab/cluster/processes.ts'
import { buildSlmBundle, buildTextBundle } from '../../support/agent-world.ts'
import { type TempDir, tempDir } from '../../support/temp-dir.ts'

let dir: TempDir
let cluster: Cluster
let bridge: BridgeNode
beforeAll(async () => {
  dir = tempDir()
  cluster = await Cluster.create({ bundle: await buildTextBundle(dir.path), folder: dir.path, env: process.env })
  bridge = await cluster.startBridge({ args: ['--baseline', 'andes', '--static-sketches'], program })
}, 120_000)
afterAll(async () => {
  await cluster[Symbol.asyncDispose]()
  dir[Symbol.dispose]()
})

const answerOf = async (id: string, args: readonly string[]) => {
  const agent = await cluster.startAgent({ id, bridges: [bridge.ready.mqttUrl], args, program })
  const messages = [{ role: 'user' as const, content: 'Where does the river rise?' }]
  return askAgent(agent.ready.apiUrl, { messages, max_tokens: 12, temperature: 0 }, AbortSignal.timeout(60_000))
}

it('answers as U-shape with a baseline at the bridge: the same text as HAT, with the deep states of the whole prompt', async () => {
  const hat = await answerOf('hat', [])
  const uShape = await answerOf('u-shape', ['--prefill', 'whole-all', '--drafter', 'none', '--no-draft-ahead', '--no-reuse'])
  expect(uShape.report.tokenIds).toEqual(hat.report.tokenIds)
  expect(uShape.report.bytesDown).toBeGreaterThan(hat.report.bytesDown!)
})

it('has the small model and the server as its only ways, as DiSCo is measured', async () => {
  const args = ['--no-hat', '--mode', 'auto', '--slm', await buildSlmBundle(dir.path), '--server', 'bridge']
  const agent = await cluster.startAgent({ id: 'two-ways', bridges: [bridge.ready.mqttUrl], args, program })
  const messages = [{ role: 'user' as const, content: 'Where does the river rise?' }]
  const body = { messages, max_tokens: 3, brim: { explain: true } }
  const { report } = await streamAnswerFrom({ server: 'agent', url: agent.ready.apiUrl }, body, AbortSignal.timeout(60_000))
  const ways = report.disco!.ways!.filter(({ model }) => model !== null)
  expect(ways.map(({ way }) => way)).toEqual(['slm', 'bridge', 'sketches'])
})

it('rejects Medusa where the bundle has no heads', async () => {
  await expect(answerOf('medusa', ['--medusa'])).rejects.toThrow()
})

it('drafts with the Medusa heads of the demonstration model, as the benchmark of HAT asks for it', async () => {
  const { agent: args, bridge: bridgeArgs } = strategies['u-medusa']
  await using demo = await Cluster.create({ bundle: await ensureDemoBundle(), folder: dir.path, env: process.env })
  const { ready } = await demo.startBridge({ args: bridgeArgs('short'), program })
  const agent = await demo.startAgent({ id: 'medusa', bridges: [ready.mqttUrl], args, program })
  const messages = [{ role: 'user' as const, content: 'Tell me a story about a fox.' }]
  const { report } = await askAgent(agent.ready.apiUrl, { messages, max_tokens: 40, temperature: 0 }, AbortSignal.timeout(60_000))
  expect(report.acceptLength).toBeGreaterThan(1)
})
