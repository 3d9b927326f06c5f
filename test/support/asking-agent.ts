import { expect, vi } from 'vitest'
import type { Agent } from '../../agent/agent.ts'
import { postJson } from './post-json.ts'

/** `brim` of a response. */
export interface Report {
  readonly mode: string
  readonly sources: readonly { readonly source: string; readonly model: string; readonly from: number; readonly tokens: number }[]
  readonly fallback: { readonly code: string } | null
  readonly tokenIds?: readonly number[]
  readonly disco: {
    readonly mode: string
    readonly winner: string
    readonly startMs: Readonly<Record<'device' | 'server', number | null>>
    readonly cost: Readonly<
      Record<'device' | 'server', { readonly promptTokens: number; readonly tokens: number; dollars: number }>
    >
    readonly migrations: readonly { readonly reason: string; readonly to: string; readonly succeeded: boolean }[]
    readonly ways?: readonly { readonly way: string; readonly reason: string }[]
  }
}

export interface Answer {
  readonly status: number
  readonly text: string
  readonly report: Report
  readonly error?: { readonly message: string; readonly param: string; readonly hint: string; readonly code: string }
}

const post = ({ apiUrl }: Agent, brim: object, more: object = {}) =>
  postJson(`${apiUrl}/v1/chat/completions`, {
    messages: [{ role: 'user', content: 'Where is the river?' }],
    temperature: 0,
    max_tokens: 12,
    ignore_eos: false,
    brim,
    ...more,
  })

export async function ask(agent: Agent, brim: object, more: object = {}): Promise<Answer> {
  const response = await post(agent, brim, more)
  const {
    choices,
    brim: report,
    error,
  } = (await response.json()) as {
    choices?: [{ message: { content: string } }]
    brim: Report
    error?: Answer['error']
  }
  return { status: response.status, text: choices?.[0].message.content ?? '', report, ...(error && { error }) }
}

/** The events of a stream, each with the time at which it came. */
export async function stream(agent: Agent, brim: object, more: object = {}) {
  const response = await post(agent, brim, { stream: true, ...more })
  const events: { readonly atMs: number; readonly data: { choices?: [{ delta: { content?: string } }]; brim?: Report } }[] = []
  let rest = ''
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    const lines = (rest + Buffer.from(chunk).toString()).split('\n\n')
    rest = lines.pop() ?? ''
    for (const line of lines)
      if (line.startsWith('data: {')) events.push({ atMs: performance.now(), data: JSON.parse(line.slice(6)) as never })
  }
  const text = events.map(({ data }) => data.choices?.[0].delta?.content ?? '').join('')
  return { events, text, report: events.findLast(({ data }) => data.brim)!.data.brim! }
}

export const sourcesOf = ({ report }: { readonly report: Report }) => report.sources.map(({ source }) => source)
export const health = async ({ apiUrl }: Agent) => (await (await fetch(`${apiUrl}/health`)).json()) as Record<string, unknown>

/** Waits until requests in the default mode would be answered. */
export const linked = (agent: Agent) =>
  vi.waitFor(async () => expect((await health(agent)).status).toBe('ok'), { timeout: 30_000 })
