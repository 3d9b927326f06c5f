import '../../kit/base/plain-messages.ts'
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { BrimError, orThrow } from '../../kit/base/errors.ts'
import { reasonOf } from '../../wire/protocol/read-message.ts'
import { encoder, Manifest, manifestFile, manifestSchema, maxManifestBytes, type PartName } from './manifest.ts'
import { findExcess } from './manifest-bounds.ts'
import { findTreeError } from './medusa-tree.ts'
import { modelIdOf } from './model-id.ts'

const rebuild = 'copy the bundle again, or build it again with "brim model build"'

/**
 * Reads the manifest of a bundle and checks that it lists every file that its parts need. Contents are not checked.
 * @throws BrimError BUNDLE_INVALID
 */
export async function readManifest(folder: string): Promise<Manifest> {
  const path = join(folder, manifestFile)
  const document = parseJson(path, await readText(folder, path))
  const { schema } = z.looseObject({ schema: z.unknown().optional() }).parse(document)
  if (typeof schema === 'number' && schema > manifestSchema)
    throw new BrimError('BUNDLE_INVALID', `${path} has schema ${schema}; this Brim reads ${manifestSchema}`, {
      hint: 'update Brim on this machine, or build the bundle with the installed version',
    })
  const parsed = Manifest.safeParse(document)
  if (!parsed.success)
    throw new BrimError('BUNDLE_INVALID', `${path} is not a valid manifest: ${reasonOf(parsed.error)}`, { hint: rebuild })
  checkReferences(path, parsed.data)
  checkMedusa(path, parsed.data)
  const excess = findExcess(parsed.data)
  if (excess) throw new BrimError('BUNDLE_INVALID', `${path}: ${excess}`, { hint: rebuild })
  // Agent and bridge compare only the id, so it must match the listed files.
  if (modelIdOf(parsed.data) !== parsed.data.modelId)
    throw new BrimError('BUNDLE_INVALID', `${path}: the model id does not match the listed files`, { hint: rebuild })
  return parsed.data
}

export interface VerifyOptions {
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: (doneBytes: number, totalBytes: number) => void
}

/**
 * Checks the size and the hash of every file of a bundle.
 * @throws BrimError BUNDLE_CORRUPT naming the first file that differs from the manifest; the signal's reason when aborted
 */
export async function verifyHashes(
  folder: string,
  { files }: Pick<Manifest, 'files'>,
  { signal, onProgress }: VerifyOptions = {},
): Promise<void> {
  const totalBytes = files.reduce((sum, { bytes }) => sum + bytes, 0)
  let doneBytes = 0
  for (const { path, bytes, sha256 } of files) {
    const file = join(folder, path)
    const found = await stat(file).catch(() => undefined)
    if (!found?.isFile()) throw corrupt(`${file} is missing`)
    if (found.size !== bytes) throw corrupt(`${file} has ${found.size} bytes, the manifest lists ${bytes}`)
    const hash = createHash('sha256')
    for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) {
      signal?.throwIfAborted()
      hash.update(chunk)
      doneBytes += chunk.length
      onProgress?.(doneBytes, totalBytes)
    }
    if (hash.digest('hex') !== sha256) throw corrupt(`${file} was changed: its sha256 differs from the manifest`)
  }
}

async function readText(folder: string, path: string): Promise<string> {
  try {
    const { size } = await stat(path)
    if (size <= maxManifestBytes) return await readFile(path, 'utf8')
  } catch (cause) {
    throw new BrimError('BUNDLE_INVALID', `${folder} is not a bundle: it has no ${manifestFile}`, {
      cause,
      hint: 'give a folder that "brim model build" wrote',
    })
  }
  throw new BrimError('BUNDLE_INVALID', `${path} is not a valid manifest: it has more than ${maxManifestBytes} bytes`, {
    hint: rebuild,
  })
}

function parseJson(path: string, json: string): object {
  return orThrow(() => z.looseObject({}).parse(JSON.parse(json)), 'BUNDLE_INVALID', `${path} is not a JSON object`, rebuild)
}

/** Every file that a part needs must be listed and long enough. */
function checkReferences(path: string, { parts, files }: Manifest): void {
  const sizes = new Map(files.map((file) => [file.path, file.bytes]))
  for (const [name, part] of Object.entries(parts)) {
    const needs = [...Object.values(part.graphs), part.golden].map((file) => ({ file, end: 0 }))
    const weights = part.weights.map(({ file, offset, bytes }) => ({ file, end: offset + bytes }))
    for (const { file, end } of [...needs, ...weights]) {
      const size = sizes.get(file)
      if (size === undefined || end > size)
        throw new BrimError(
          'BUNDLE_INVALID',
          `${path}: part ${name} needs ${file}, which is ${size === undefined ? 'not listed' : 'too short'}`,
          {
            hint: rebuild,
          },
        )
    }
  }
}

/** Verification relies on the paths of the tree. */
function checkMedusa(path: string, { parts: { medusa }, dims }: Manifest): void {
  if (!medusa) return
  const { heads = 0, tree } = medusa
  const error = tree && heads > 0 ? findTreeError(tree, heads, dims.vocab) : 'it has no heads or no tree'
  if (error) throw new BrimError('BUNDLE_INVALID', `${path}: part medusa: ${error}`, { hint: rebuild })
}

const corrupt = (message: string) => new BrimError('BUNDLE_CORRUPT', message, { hint: rebuild })

/** The parts of the whole model. @throws BrimError BUNDLE_INVALID for a model that embeds texts */
export function chainParts({ split, parts, card }: Manifest): readonly PartName[] {
  if (parts[encoder])
    throw new BrimError('BUNDLE_INVALID', `${card.name} embeds texts; it makes no answers`, {
      hint: 'give it with --embedding, and another bundle for answers',
    })
  return split === null ? ['whole'] : ['input', 'middle', 'output']
}
