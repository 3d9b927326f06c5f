import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { measurePair, pairBench } from '../../../../lab/bench/pice/pair-bench.ts'
import { expectFigures } from '../../../support/bench-result.ts'
import { brim } from '../../../support/brim.ts'
import { captureIo } from '../../../support/captured-io.ts'
import { finish, piece, scriptedUpstream, startStream } from '../../../support/scripted-upstream.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const full = '1. **Flour:** Weigh the flour and the water with care.\n2. **Kneading:** Knead the dough well for ten minutes.'
const sketch = '1. **Flour:** weigh flour, water\n2. **Kneading:** knead dough ten minutes'

/** What the general prompts ask a model for. */
function replyTo(asked: string): string {
  if (asked.includes('How many words')) return '150'
  if (asked.includes('Write a sketch')) return sketch
  const line = /Key words: (.*)$/.exec(asked)?.[1]
  return line === undefined ? full : `One should ${line} without any hurry, and then wait.`
}

/** A server with a model that does as it is told, and finds a letter in two likely. */
async function openServer(model: string) {
  const server = await scriptedUpstream((response, { path, body }) => {
    const json = (value: object) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    if (path.endsWith('/completions') && typeof body.prompt === 'string') {
      const offsets = Array.from({ length: body.prompt.length + 1 }, (_, at) => at)
      const logprobs = { text_offset: offsets, token_logprobs: offsets.map((at) => (at === 0 ? null : -Math.LN2)) }
      return void json({ choices: [{ text: body.prompt, logprobs }] })
    }
    const asked = String((body.messages as { content: string }[]).at(-1)?.content)
    startStream(
      response,
      ...replyTo(asked)
        .split(/(?<=\s)/)
        .map(piece),
      finish,
    )
    response.end()
  })
  server.models.push(model)
  return server
}

it('asks a pair of servers every question, in full and by sketch, and judges both answers', async () => {
  using dir = tempDir()
  await using llm = await openServer('llm')
  await using small = await openServer('small')
  const questions = join(dir.path, 'question.jsonl')
  const lines = ['Give me a numbered list of 2 steps to bake bread, with bold titles.', 'Give me some tips for better bread.']
  writeFileSync(
    questions,
    lines.map((turn) => JSON.stringify({ category: 'generic', turns: [turn, 'And now in French.'] })).join('\n'),
  )
  const { io } = captureIo({ env: process.env as Record<string, string> })
  const effort = { devices: 1, answerTokens: 256 }
  const given = { pair: llm.url, pairSmall: small.url, questions }
  const measured = await measurePair(effort, { quick: true, io, progress: io.err }, given)
  const result = pairBench.resultOf(measured)
  expectFigures(pairBench, result)
  expect(result.summary).toMatchObject({ answered: 1, sketched: 1, formKept: 1 })
  expect(result.summary.bitsPerToken).toBeCloseTo(1)
  expect(measured.conditions).toMatchObject({ llm: 'llm', small: 'small' })
  const [first] = measured.runs
  expect(first?.full.text).toBe(full)
  expect(first?.sketch.text).toMatch(/^1\. \*\*Flour:\*\* .+\n2\. \*\*Kneading:\*\* .+/)
  expect(first?.sketch).toMatchObject({ sketchLines: 2, completedSentences: 0 })
  expect(small.requests.length).toBeGreaterThan(0)
})

it('needs both servers, which name their models, and a file of questions', async () => {
  await using server = await openServer('llm')
  const { io } = captureIo()
  const run = (...args: string[]) => brim(['bench', 'pice', '--despite-load', '--pair', server.url, ...args], io)
  await expect(run()).rejects.toMatchObject({ code: 'USAGE' })
  await expect(run('--pair-small', 'http://127.0.0.1:1')).rejects.toMatchObject({ code: 'UPSTREAM_FAILED' })
  const none = ['--pair-small', server.url, '--questions', '/dev/null/none']
  await expect(run(...none)).rejects.toMatchObject({ code: 'USAGE', message: expect.stringContaining('no questions') })
})
