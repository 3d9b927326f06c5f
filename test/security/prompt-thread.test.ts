import { setImmediate as nextTurn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { PromptThread } from '../../core/model/text/prompt-thread.ts'

const folder = fileURLToPath(new URL('../../models/demo/llm', import.meta.url))
let started = 0
const count = () => {
  started += 1
}
beforeEach(() => {
  started = 0
  process.on('worker', count)
})
afterEach(() => void process.off('worker', count))

it('requests that end together, as at the shutdown of an agent, start no thread each', async () => {
  const thread = new PromptThread({ name: 'demo', folder, contextLimit: 4_096 })
  const ends = Array.from({ length: 30 }, () => new AbortController())
  const task = { kind: 'encode', prompt: JSON.stringify({ kind: 'text', text: 'a'.repeat(10_000) }) } as const
  const runs = ends.map((end) => thread.run(task, '', end.signal))
  for (const end of ends) end.abort()
  const results = await Promise.allSettled(runs)
  expect(results.every(({ status }) => status === 'rejected')).toBe(true)
  await nextTurn()
  expect(started).toBe(1)
})

it('clients take turns: the prompts of one, however short, delay one of another by at most one', async () => {
  const thread = new PromptThread({ name: 'demo', folder, contextLimit: 65_536 })
  const { signal } = new AbortController()
  const ends: string[] = []
  const encode = async (client: string, length: number) => {
    const task = { kind: 'encode', prompt: JSON.stringify({ kind: 'text', text: 'a '.repeat(length) }) } as const
    await thread.run(task, client, signal)
    ends.push(client)
  }
  const flood = Array.from({ length: 12 }, (_, user) => encode(`flood/${user}`, 1_000))
  await Promise.all([...flood, encode('honest/', 20_000), encode('honest/', 10_000)])
  expect(ends.indexOf('honest/')).toBeLessThanOrEqual(2)
  expect(ends.lastIndexOf('honest/')).toBeLessThanOrEqual(4)
})
