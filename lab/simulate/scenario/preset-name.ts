import { z } from 'zod'
import { nearestWord } from '../../../core/kit/cli/nearest-word.ts'
import { isHardwareFile } from '../hardware/presets/hardware-file.ts'

/**
 * The name of a preset, which editors complete.
 * @param kind as in 'GPU'
 * @param files whether a file of one's own may take its place
 */
export function presetName(kind: string, presets: readonly { readonly name: string }[], { files = false } = {}): z.ZodString {
  const names = presets.map(({ name }) => name)
  return z
    .string()
    .superRefine((given, context) => {
      if (names.includes(given.toLowerCase()) || (files && isHardwareFile(given))) return
      const nearest = nearestWord(given.toLowerCase(), names)
      context.addIssue({
        code: 'custom',
        message:
          `is "${given}", which is no ${kind}${nearest === undefined ? '' : `; did you mean "${nearest}"?`}; ` +
          `${files ? 'it may be a file (*.yaml, *.json) or one of' : 'it must be one of'} ${names.join(', ')}`,
      })
    })
    .meta({ anyOf: [{ enum: names }, ...(files ? [{ pattern: '\\.(ya?ml|json)$' }] : [])] })
}
