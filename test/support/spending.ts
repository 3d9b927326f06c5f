import type { Spending } from '../../core/wire/protocol/spending.ts'

/** Of a phone on battery whose server has used up its budget. */
export const someSpending: Spending = {
  windowS: 86_400,
  whenExhausted: 'other',
  server: {
    promptTokens: 1_200,
    tokens: 600,
    dollars: 0.5004,
    reservedDollars: 0.001,
    maxDollars: 0.5,
    promptDollarsPerToken: 1.5e-7,
    outputDollarsPerToken: 6e-7,
    waitS: 5_400,
  },
  slm: {
    promptTokens: 3_000,
    tokens: 900,
    joules: 1_234,
    reservedJoules: 0,
    maxJoules: null,
    energySource: 'measured',
    prefillJPerToken: 0.1,
    decodeJPerToken: 0.4,
    dollarsPerJoule: 2.5e-5,
    energyReason: 'battery',
    waitS: 0,
  },
  hat: { promptTokens: 10, tokens: 20 },
  auto: { promptTokens: 4_000, constrained: 'server', maxShare: 0.3, deviceShare: 0.75, serverShare: 0.28 },
}
