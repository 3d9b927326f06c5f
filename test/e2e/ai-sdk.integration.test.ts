import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, Output, stepCountIs, streamText, tool } from 'ai'
import { beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { startAgentWorld } from '../support/agent-world.ts'
import { startTestBridge } from '../support/bridge.ts'
import { shared } from '../support/shared.ts'

const world = shared(() => startAgentWorld({ context: 2_048 }))
const bridge = shared(() => startTestBridge({ bundle: world.bundle, stateDir: `${world.dir}/alone` }))
let urls: Record<'agent' | 'bridge', string>
beforeAll(async () => {
  urls = { agent: world.agent.apiUrl, bridge: bridge.httpUrl }
})

describe.each(['agent', 'bridge'] as const)("Vercel's AI SDK, unmodified, at the %s", (door) => {
  const model = () =>
    createOpenAICompatible({ name: 'brim', baseURL: `${urls[door]}/v1`, supportsStructuredOutputs: true })('brim')
  const options = { temperature: 0, maxRetries: 0, prompt: 'Where does the river rise?' }

  it('gets a whole and a streamed answer with the same text', async () => {
    const whole = await generateText({ ...options, model: model(), maxOutputTokens: 8 })
    expect(whole.text).not.toBe('')
    expect(whole).toMatchObject({ finishReason: 'length', usage: { outputTokens: 8 } })
    const streamed = streamText({ ...options, model: model(), maxOutputTokens: 8 })
    let text = ''
    for await (const piece of streamed.textStream) text += piece
    expect(text).toBe(whole.text)
  })

  it('gets an object of a schema', async () => {
    const schema = z.object({ river: z.enum(['Aare', 'Rhone']), rising: z.boolean() })
    const { output } = await generateText({ ...options, model: model(), maxOutputTokens: 80, output: Output.object({ schema }) })
    expect(schema.parse(output)).toEqual(output)
  })

  it('has a tool called, and sends its result back for the answer', async () => {
    const called: string[] = []
    const level = tool({
      inputSchema: z.object({ river: z.enum(['Aare', 'Rhone']) }),
      execute: async ({ river }) => {
        called.push(river)
        return `${river}: 503 m`
      },
    })
    const { steps } = await generateText({
      ...options,
      model: model(),
      maxOutputTokens: 100,
      tools: { level },
      // A tiny model never stops calling.
      providerOptions: { brim: { parallel_tool_calls: false } },
      prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'none' }),
      stopWhen: stepCountIs(2),
    })
    expect(called.length).toBeGreaterThan(0)
    expect(steps).toHaveLength(2)
    expect(steps[0]!.toolResults[0]).toMatchObject({ toolName: 'level', output: `${called[0]}: 503 m` })
    expect(steps[1]!.text).not.toBe('')
  })
})
