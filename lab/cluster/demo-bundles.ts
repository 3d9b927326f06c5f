import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { BrimError } from '../../core/kit/base/errors.ts'
import { projectRoot, release } from '../../core/kit/base/version.ts'
import { buildBundle } from '../../core/model/bundle/build.ts'
import { drafterParts, manifestFile } from '../../core/model/bundle/manifest.ts'
import { codeStates } from '../../core/model/coding/code-states.ts'

/** The models of models/demo: the LLM and small ones for devices, of which `slm-other` has another tokenizer. */
const demoModels = ['llm', 'slm-wide', 'slm-deep', 'slm-other'] as const
export type DemoModel = (typeof demoModels)[number]

/** fp32, in which answers are exact. The LLM is split after its first layer; the small models stay whole. */
const recipe = (model: DemoModel) => ({ format: 'fp32', ...(model === 'llm' ? { split: 1 } : {}) }) as const

/**
 * The bundle of a demonstration model, the LLM's with all its drafters: the one that the archive holds, or one built at the
 * first call.
 * @returns its folder
 */
export async function ensureDemoBundle(model: DemoModel = 'llm'): Promise<string> {
  const shipped = fileURLToPath(new URL(`bundles/demo-${model}`, projectRoot))
  if (existsSync(join(shipped, manifestFile))) return shipped
  const checkpoint = fileURLToPath(new URL(`models/demo/${model}`, projectRoot))
  if (!existsSync(checkpoint))
    throw new BrimError('CHECKPOINT_NOT_FOUND', `the demonstration model ${checkpoint} is missing`, {
      hint: 'restore models/demo, for example with "git checkout models/demo"',
    })
  const folder = builtBundles()
  const out = join(folder, `demo-${model}-${keyOf(model, checkpoint)}`)
  if (existsSync(join(out, manifestFile))) return out
  // Bundles of earlier models or builders are not used again.
  if (existsSync(folder))
    for (const entry of readdirSync(folder))
      if (new RegExp(`^demo-${model}-[0-9a-f]{16}$`).test(entry)) rmSync(join(folder, entry), { recursive: true })
  try {
    const name = model === 'llm' ? 'brim-demo' : `brim-demo-${model}`
    const drafters = drafterParts.filter((drafter) => existsSync(join(checkpoint, drafter)))
    await buildBundle({ checkpoint, out, name, drafters, codeStates: (folder) => codeStates(folder, 1), ...recipe(model) })
  } catch (error) {
    // Another process may have built the same bundle at the same time.
    if (!existsSync(join(out, manifestFile))) throw error
  }
  return out
}

/** The builder's source; installed packages have only what is compiled from it. */
const builderFolders = ['core/model/bundle', 'core/model/coding']
const isCheckout = existsSync(fileURLToPath(new URL(builderFolders[0]!, projectRoot)))

/** An installed package may belong to root, so bundles go to the user's cache. */
function builtBundles(): string {
  if (isCheckout) return fileURLToPath(new URL('.cache/bundles', projectRoot))
  return join(homedir(), '.cache/brim/bundles')
}

/** A hash of the model's files, the builder's code and the recipe. */
function keyOf(model: DemoModel, checkpoint: string): string {
  const hash = createHash('sha256').update(JSON.stringify({ release, recipe: recipe(model) }))
  const builder = builderFolders.map((folder) => fileURLToPath(new URL(isCheckout ? folder : `dist/${folder}`, projectRoot)))
  for (const root of [checkpoint, ...builder]) {
    const files = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    for (const path of files.map((entry) => join(entry.parentPath, entry.name)).sort())
      hash.update(path.slice(root.length)).update(readFileSync(path))
  }
  return hash.digest('hex').slice(0, 16)
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url))
  for (const model of demoModels) console.log(await ensureDemoBundle(model))
