import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { type ActiveModel, ModelSlot, type OpenSlotModel } from '../../../agent/models/model-slot.ts'
import { fresh } from '../../support/shared.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

interface Model extends OpenSlotModel {
  readonly folder: string
}

const dir = fresh(tempDir)
let open: Set<string>
let slot: ModelSlot<Model>
const folder = (name: string) => join(dir.path, name)
const never = new AbortController().signal
const admit = async (opened: ActiveModel<Model>) => opened
beforeEach(async () => {
  open = new Set()
  for (const name of ['a', 'b', 'placed']) {
    mkdirSync(folder(name))
    writeFileSync(join(folder(name), 'manifest.json'), name)
  }
  slot = new ModelSlot<Model>(async (at) => {
    open.add(at)
    return { folder: at, close: async () => void open.delete(at) }
  }, silentLogger())
  await slot.open(folder('a'))
})

/** Begins an answer of the model that is current now. @returns ends it */
const answer = () => slot.current!.gate.begin()

describe('the place of a model', () => {
  it('beside: new answers go to the other model at once, and the one before is closed after its last answer', async () => {
    const endAnswer = answer()
    await slot.replace(
      { folder: folder('b'), isBeside: true, admit: async (opened) => ({ ...opened, folder: folder('placed') }) },
      never,
    )
    expect(slot.current).toMatchObject({ folder: folder('placed'), model: { folder: folder('b') } })
    expect([...open]).toEqual([folder('a'), folder('b')])
    expect(slot.folders).toEqual([folder('placed'), folder('a')])
    endAnswer()
    await expect.poll(() => [...open]).toEqual([folder('b')])
    expect(slot.folders).toEqual([folder('placed')])
  })

  it.each([true, false])('keeps the model before where the other one is not admitted (beside: %s)', async (isBeside) => {
    const refuse = async () => {
      throw new Error('not healthy')
    }
    await expect(slot.replace({ folder: folder('b'), isBeside, admit: refuse }, never)).rejects.toThrow('not healthy')
    expect(slot.current?.folder).toBe(folder('a'))
    await expect.poll(() => [...open]).toEqual([folder('a')])
    answer()()
  })

  it('without memory for both: waits for the last answer, unless it is canceled', async () => {
    const endAnswer = answer()
    const cancel = new AbortController()
    const canceled = slot.replace({ folder: folder('b'), isBeside: false, admit }, cancel.signal)
    cancel.abort(new Error('canceled'))
    await expect(canceled).rejects.toThrow('canceled')
    const replacing = slot.replace({ folder: folder('b'), isBeside: false, admit }, never)
    expect([...open]).toEqual([folder('a')])
    endAnswer()
    await replacing
    expect([...open]).toEqual([folder('b')])
  })

  it('closes also what answers are in progress on', async () => {
    answer()
    await slot.replace({ folder: folder('b'), isBeside: true, admit }, never)
    await slot.close()
    expect([...open]).toEqual([])
  })
})
