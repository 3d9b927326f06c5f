import { describe, expect, it } from 'vitest'
import { type AgentWorld, startAgentWorld } from '../support/agent-world.ts'
import { type CollectedSpan, startCollector } from '../support/collector.ts'
import { postJson } from '../support/post-json.ts'
import { shared } from '../support/shared.ts'

const collector = shared(startCollector)

const question = 'Can you book a table?'
let traces = 0
/** A client's own trace and span. */
function newTrace() {
  traces += 1
  const [traceId, spanId] = [traces.toString(16).padStart(32, 'a'), traces.toString(16).padStart(16, 'b')]
  return { traceId, spanId, header: `00-${traceId}-${spanId}-01` }
}

async function ask(apiUrl: string, traceparent: string, more: object = {}) {
  const response = await postJson(
    `${apiUrl}/v1/chat/completions`,
    { messages: [{ role: 'user', content: question }], max_tokens: 8, ...more },
    { traceparent },
  )
  expect(response.status).toBe(200)
  return (await response.json()) as { id: string; usage: { prompt_tokens: number; completion_tokens: number } }
}

const linked = (apiUrl: string) => expect.poll(async () => (await fetch(`${apiUrl}/ready`)).status).toBe(200)

/** The spans of a trace, once agent and bridge have sent them: they do when they close. */
const spansOf = (traceId: string) => collector.spans.filter((span) => span.traceId === traceId)
const named = (spans: readonly CollectedSpan[], service: string) => spans.filter((span) => span.service === service)

describe('a request with a traceparent', () => {
  it('is one trace over client, device, bridge and back, with the GenAI names of OpenTelemetry', async () => {
    const world: AgentWorld = await startAgentWorld({ bridge: { otlpEndpoint: collector.url } })
    const agent = await world.startAgent({ id: 'traced', otlpEndpoint: collector.url })
    await linked(agent.apiUrl)
    const trace = newTrace()
    const { id, usage } = await ask(agent.apiUrl, trace.header)
    await world[Symbol.asyncDispose]()
    const spans = spansOf(trace.traceId)
    expect(spans).toHaveLength(2)
    const [onDevice] = named(spans, 'brim-agent')
    const [atBridge] = named(spans, 'brim-bridge')
    expect(onDevice).toMatchObject({
      name: 'chat tiny-llama',
      parentSpanId: trace.spanId,
      attributes: {
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': 'brim',
        'gen_ai.request.model': 'tiny-llama',
        'gen_ai.response.model': 'tiny-llama',
        'gen_ai.response.id': id,
        'gen_ai.usage.input_tokens': usage.prompt_tokens,
        'gen_ai.usage.output_tokens': usage.completion_tokens,
        'brim.mode': 'hat',
      },
    })
    expect(Number(onDevice!.attributes['brim.ttft_ms'])).toBeGreaterThan(0)
    expect(atBridge).toMatchObject({
      name: 'hat session',
      parentSpanId: onDevice!.spanId,
      attributes: { 'brim.device': 'traced', 'brim.session': expect.stringMatching(/^[0-9a-f]{16}$/) },
    })
    expect(Number(atBridge!.attributes['brim.positions'])).toBeGreaterThan(usage.prompt_tokens)
    expect(collector.text).not.toContain(question)
  })

  it("is continued over HTTP to the bridge's own model, and by a device that exports nothing itself", async () => {
    const world = await startAgentWorld({ bridge: { otlpEndpoint: collector.url } })
    const agent = await world.startAgent({ id: 'dispatching', server: { at: 'bridge' } })
    await linked(agent.apiUrl)
    const [asked, own] = [newTrace(), newTrace()]
    await ask(agent.apiUrl, asked.header, { brim: { mode: 'cloud' } })
    await ask(world.bridge.httpUrl, own.header)
    await world[Symbol.asyncDispose]()
    const ofDevice = spansOf(asked.traceId)
    expect(named(ofDevice, 'brim-bridge')).toMatchObject([{ name: 'text_completion tiny-llama', parentSpanId: asked.spanId }])
    expect(spansOf(own.traceId)).toMatchObject([{ service: 'brim-bridge', name: 'chat tiny-llama', parentSpanId: own.spanId }])
  })

  it('is answered although the collector is away, and the failure of a request is named in its span', async () => {
    const world = await startAgentWorld()
    const blind = await world.startAgent({ id: 'blind', otlpEndpoint: 'http://127.0.0.1:1' })
    await linked(blind.apiUrl)
    await ask(blind.apiUrl, newTrace().header)
    const agent = await world.startAgent({ id: 'refusing', otlpEndpoint: collector.url })
    const trace = newTrace()
    const response = await postJson(
      `${agent.apiUrl}/v1/completions`,
      { prompt: 'a '.repeat(2_000), max_tokens: 8 },
      { traceparent: trace.header },
    )
    expect(response.status).toBe(400)
    await world[Symbol.asyncDispose]()
    expect(spansOf(trace.traceId)).toMatchObject([
      { name: 'text_completion tiny-llama', status: { code: 2 }, attributes: { 'error.type': 'CONTEXT_OVERFLOW' } },
    ])
  })
})
