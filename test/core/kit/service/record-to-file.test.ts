import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { createClosers } from '../../../../core/kit/base/closers.ts'
import { recordToFile } from '../../../../core/kit/service/record-to-file.ts'
import { recordingLogger } from '../../../support/recording-logger.ts'
import { silentLogger } from '../../../support/silent-logger.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const doubling = { handle: (input: number) => [2 * input], wakeMs: undefined }

it('writes settings, inputs and actions of each machine, all of them before it is closed', async () => {
  using folder = tempDir()
  const path = join(folder.path, 'decisions.jsonl')
  const closers = createClosers()
  const recording = recordToFile(path, closers, silentLogger())
  recording?.of('doubling', { by: 2 }, doubling).handle(21, 7)
  await closers.closeAll()
  expect(readFileSync(path, 'utf8')).toBe(
    '{"id":1,"machine":"doubling","settings":{"by":2}}\n{"id":1,"atMs":7,"input":21,"actions":[42]}\n',
  )
})

it('records nothing where no file is named', () => {
  expect(recordToFile(undefined, createClosers(), silentLogger())).toBeUndefined()
})

it('says at the start that the file cannot be written', () => {
  const start = () => recordToFile('/no/such/folder/decisions.jsonl', createClosers(), silentLogger())
  expect(start).toThrow(expect.objectContaining({ code: 'TARGET_UNWRITABLE', hint: expect.stringContaining('--record') }))
})

it.runIf(process.platform === 'linux')('warns once where the disk is full, and closes', async () => {
  const { logger, lines } = recordingLogger('warn')
  const closers = createClosers()
  const recording = recordToFile('/dev/full', closers, logger)
  const machine = recording?.of('doubling', {}, doubling)
  await expect.poll(() => lines.length).toBe(1)
  expect(machine?.handle(1, 0)).toEqual([2])
  await closers.closeAll()
  expect(lines).toHaveLength(1)
})
