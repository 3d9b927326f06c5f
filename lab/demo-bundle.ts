import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { BrimError } from '../core/base/errors.ts'
import { projectRoot, version } from '../core/base/version.ts'
import { buildBundle } from '../core/model/build.ts'
import { manifestFile } from '../core/model/manifest.ts'

/** The demonstration model as a bundle split after its first layer, in fp32: the format in which answers are exact. */
const recipe = { split: 1, format: 'fp32' } as const

/**
 * Builds the demonstration bundle into .cache once; later calls find it there.
 * @returns its folder
 */
export async function ensureDemoBundle(): Promise<string> {
  const checkpoint = fileURLToPath(new URL('models/demo/llm', projectRoot))
  if (!existsSync(checkpoint))
    throw new BrimError('CHECKPOINT_NOT_FOUND', `the demonstration model is missing: ${checkpoint}`, {
      hint: 'check the clone out completely',
    })
  const folder = fileURLToPath(new URL('.cache/bundles', projectRoot))
  const out = join(folder, `demo-${keyOf(checkpoint)}`)
  if (existsSync(join(out, manifestFile))) return out
  // Bundles of earlier models or builders serve nobody.
  if (existsSync(folder))
    for (const entry of readdirSync(folder))
      if (/^demo-[0-9a-f]{16}$/.test(entry)) rmSync(join(folder, entry), { recursive: true })
  try {
    await buildBundle({ checkpoint, out, name: 'brim-demo', ...recipe })
  } catch (error) {
    // Another process may have built the same at the same time.
    if (!existsSync(join(out, manifestFile))) throw error
  }
  return out
}

/** Changes with the model's files, with the builder and with how we build. */
function keyOf(checkpoint: string): string {
  const hash = createHash('sha256').update(JSON.stringify({ version, recipe }))
  const builder = fileURLToPath(new URL('core/model', projectRoot))
  for (const root of [checkpoint, builder]) {
    const files = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    for (const path of files.map((entry) => join(entry.parentPath, entry.name)).sort())
      hash.update(path.slice(root.length)).update(readFileSync(path))
  }
  return hash.digest('hex').slice(0, 16)
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url))
  console.log(await ensureDemoBundle())
