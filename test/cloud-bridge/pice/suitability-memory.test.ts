import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { SuitabilityMemory } from '../../../cloud-bridge/pice/suitability-memory.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { recordingLogger } from '../../support/recording-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const chat = (content: string) => [
  { role: 'system', content: 'You are kind.' },
  { role: 'user', content: 'Hello' },
  { role: 'assistant', content: 'Hello!' },
  { role: 'user', content },
]
const tale = (hero: string) => chat(`Tell me a long story about ${hero}, a dragon and a magic lamp.`)
const heroes = [
  'a king',
  'a miller',
  'a princess',
  'a shepherd',
  'a soldier',
  'a queen',
  'a fisher',
  'a witch',
  'a tailor',
  'a cook',
]

function memoryIn(folder: string) {
  const clock = fakeClock()
  const { logger, lines } = recordingLogger('warn')
  const file = join(folder, 'suitability.json')
  // Never explores.
  const open = () => new SuitabilityMemory({ file, clock, logger, random: { next: () => 0.999 } })
  return { open, file, clock, lines }
}

describe('which conversations suit a sketch', () => {
  it('is decided by what is asked last', () => {
    using folder = tempDir()
    const memory = memoryIn(folder.path).open()
    expect(memory.suits(chat('What are the main benefits of reading?'), 'client')).toBe(true)
    expect(memory.suits(chat('Write a Python function that sorts a list.'), 'client')).toBe(false)
    expect(memory.suits([], 'client')).toBe(false)
    expect(memory.suits([{ role: 'user', content: [{ type: 'image' }] }], 'client')).toBe(false)
  })

  it('is remembered over a restart', () => {
    using folder = tempDir()
    const { open, file, lines } = memoryIn(folder.path)
    const first = open()
    expect(first.suits(tale('a goose'), 'client')).toBe(false)
    for (const hero of heroes) first.learn(tale(hero), `client of ${hero}`, 0.8)
    expect(first.suits(tale('a goose'), 'client')).toBe(true)
    first.save()
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(readFileSync(file, 'utf8')).not.toContain('dragon')
    expect(open().suits(tale('a goose'), 'client')).toBe(true)
    expect(lines).toEqual([])
  })

  it('is not decided by one client for all: after 60 poor answers, requests that clearly suit are sketched', () => {
    using folder = tempDir()
    const memory = memoryIn(folder.path).open()
    const things = ['sleep', 'exams', 'travel', 'cooking', 'chess', 'running', 'music', 'gardening', 'skiing', 'writing']
    const asked = (at: number) =>
      chat(`What are the main ${at % 2 ? 'benefits' : 'reasons'} of ${things[at % 10]} in ${at} ways?`)
    for (let at = 0; at < 60; at += 1) memory.learn(asked(at), 'one', 0.35)
    const suitable = ['tips for painting a fence?', 'advantages of trains?', 'causes of floods?', 'ways to save water?']
    const share = (client: string) => suitable.filter((what) => memory.suits(chat(`What are the ${what}`), client)).length
    expect(share('another')).toBe(4)
    expect(share('one')).toBeGreaterThanOrEqual(2)
    // Its own kind of request is the client's to lose.
    expect(memory.suits(asked(3), 'another')).toBe(true)
  })

  it('is stored at most once a minute, and only news', async () => {
    using folder = tempDir()
    const { open, file, clock } = memoryIn(folder.path)
    const memory = open()
    memory.save()
    memory.learn(tale('a king'), 'client', 0.8)
    expect(existsSync(file)).toBe(false)
    await clock.advance(60_000)
    memory.learn(tale('a queen'), 'client', 0.8)
    expect(existsSync(file)).toBe(true)
  })

  it.each(['', '{', '{"version":2}', '{"version":1,"surface":{},"buckets":"AAAA"}', `{"version":1,"surface":{"words":"x"}}`])(
    'is learnt anew where the file is damaged: %j',
    (content) => {
      using folder = tempDir()
      const { open, file, lines } = memoryIn(folder.path)
      writeFileSync(file, content)
      const memory = open()
      expect(lines).toMatchObject([{ file }])
      expect(memory.suits(chat('What are the main benefits of reading?'), 'client')).toBe(true)
    },
  )

  it('keeps working where the file cannot be written', () => {
    using folder = tempDir()
    const { logger, lines } = recordingLogger('error')
    const file = join(folder.path, 'a-file', 'suitability.json')
    writeFileSync(join(folder.path, 'a-file'), '')
    const memory = new SuitabilityMemory({ file, clock: fakeClock(), logger, random: { next: () => 0.5 } })
    memory.learn(tale('a king'), 'client', 0.8)
    memory.save()
    expect(lines).toMatchObject([{ file }])
  })
})
