import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { lockFolder } from '../../../../core/kit/store/lock-folder.ts'
import { tempDir } from '../../../support/temp-dir.ts'

it('a folder can be locked by one holder until it is released', () => {
  using dir = tempDir()
  const unlock = lockFolder(dir.path)
  expect(() => lockFolder(dir.path)).toThrow(expect.objectContaining({ code: 'STATE_IN_USE' }))
  unlock()
  lockFolder(dir.path)()
})

it('the error names a folder that cannot be created', () => {
  using dir = tempDir()
  writeFileSync(join(dir.path, 'file'), '')
  expect(() => lockFolder(join(dir.path, 'file', 'state'))).toThrow(expect.objectContaining({ code: 'STORE_FAILED' }))
})
