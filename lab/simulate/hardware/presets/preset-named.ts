import { BrimError } from '../../../../core/kit/base/errors.ts'
import { nearestWord } from '../../../../core/kit/cli/nearest-word.ts'

/**
 * The preset of a name; upper and lower case are the same.
 *
 * @param kind what the presets are: 'GPU'
 * @throws BrimError USAGE with the most similar name, or all of them
 */
export function presetNamed<Preset extends { readonly name: string }>(
  presets: readonly Preset[],
  kind: string,
  name: string,
): Preset {
  const wanted = name.toLowerCase()
  const preset = presets.find((candidate) => candidate.name === wanted)
  if (preset) return preset
  const names = presets.map((candidate) => candidate.name)
  const nearest = nearestWord(wanted, names)
  throw new BrimError('USAGE', `there is no ${kind} preset "${name}"; the presets are ${names.join(', ')}`, {
    hint: nearest === undefined ? 'brim simulate presets shows what they are' : `did you mean "${nearest}"?`,
  })
}
