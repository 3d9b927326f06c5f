import { expect, it } from 'vitest'
import { boardNamed, modelNamed } from '../../../../../lab/simulate/hardware/presets/presets.ts'
import { devicePartsOf } from '../../../../../lab/simulate/modes/hat/device-parts.ts'

/** Reads one byte per second, and computes in no time: seconds are bytes. */
const reader = { ...boardNamed('agx-orin-32').hardware, bytesPerS: 1, flopPerS: Number.POSITIVE_INFINITY, layerS: 0 }
/** The weights of a part with fp16 weights, in millions; the KV of one row and position adds little. */
const millions = (seconds: number) => Math.round(seconds / 2e6)

it('has the parts of the paper: Table IV’s parameters, two layers of 202 million, a head of 131', () => {
  const parts = devicePartsOf(modelNamed('vicuna-7b'), 2)
  expect(millions(parts.adapterS(reader, 1, 0))).toBe(67)
  expect(millions(parts.medusaS(reader))).toBe(591)
  expect(millions(parts.inputS(reader, 1, 0))).toBe(405)
  expect(millions(parts.outputS(reader, 1))).toBe(131)
})

it('guesses a token with adapter and head, whose weights several rows share', () => {
  const parts = devicePartsOf(modelNamed('vicuna-7b'), 2)
  expect(millions(parts.guessS(reader, 1, 0))).toBe(198)
  expect(millions(parts.guessS(reader, 3, 0))).toBe(198)
})
