import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { tempDir } from '../../../support/temp-dir.ts'

const cli = fileURLToPath(new URL('../../../../dist/brim.js', import.meta.url))

it('disables the telemetry of ONNX Runtime: no log, no cache, no device id', async () => {
  using folder = tempDir()
  const where = { TMPDIR: folder.path, HOME: folder.path }
  // Without variables such as CI, which turn the library's telemetry off.
  await promisify(execFile)(process.execPath, [cli, 'doctor', '--json'], { env: { PATH: process.env.PATH, ...where } })
  expect(readdirSync(folder.path)).toEqual([])
})
