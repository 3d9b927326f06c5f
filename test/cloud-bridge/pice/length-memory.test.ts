import { expect, it } from 'vitest'
import { LengthMemory } from '../../../cloud-bridge/pice/length-memory.ts'
import { openPiceStore } from '../../../cloud-bridge/pice/pice-store.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

it('remembers how a model foresees its lengths, apart from other models', () => {
  using dir = tempDir()
  const store = openPiceStore(dir.path, silentLogger())
  const llm = new LengthMemory(store, silentLogger()).of('llm')
  for (let answers = 0; answers < 9; answers++) llm.record(100, 200)
  expect(llm.correct(100)).toBe(200)
  store.close()
  const next = openPiceStore(dir.path, silentLogger())
  const memory = new LengthMemory(next, silentLogger())
  expect([memory.of('llm').correct(50), memory.of('other').correct(50)]).toEqual([100, 50])
  next.close()
})
