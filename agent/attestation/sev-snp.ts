import { verify } from 'node:crypto'
import type { Product, Tcb } from './attestation-policy.ts'
import type { AttestationVerifier, ExpectedEvidence, RefusalReason, Verdict } from './attestation-verifier.ts'
import { amdRoots, certificateProblem, type SnpChain, type SnpRoots, snpChainOf } from './snp-certificates.ts'
import { parseSnpReport, type SnpReport, tcbOf } from './snp-report.ts'

/** Verifies reports of AMD SEV-SNP. @param roots other ones only in tests */
export const sevSnpVerifier = (roots: SnpRoots = amdRoots): AttestationVerifier => ({
  kind: 'sev-snp',
  verify({ report: base64, certificates }, expected) {
    const report = parseSnpReport(Buffer.from(base64, 'base64'))
    if (report === 'malformed') return refused('malformed', 'it is not a report of SEV-SNP')
    if (report === 'unsupported') return refused('unsupported', 'its report has an unknown version or algorithm')
    const chain = snpChainOf(certificates, report.signingKey, roots)
    if (typeof chain === 'string') return refused('certificates', chain)
    return authenticityProblem(report, chain, expected.nowMs) ?? judge(report, chain.product, expected)
  },
})

const refused = (reason: RefusalReason, detail: string): Verdict => ({ kind: 'refused', reason, detail })

/** Whether the report is the processor's. */
function authenticityProblem(report: SnpReport, chain: SnpChain, nowMs: number | undefined): Verdict | undefined {
  if (nowMs !== undefined) {
    const invalid = chain.all.find(({ validFrom, validTo }) => !(Date.parse(validFrom) <= nowMs && nowMs <= Date.parse(validTo)))
    if (invalid) return refused('expired', `a certificate is valid from ${invalid.validFrom} to ${invalid.validTo}`)
  }
  const { signed, signature } = report
  if (!verify('sha384', signed, { key: chain.leaf.publicKey, dsaEncoding: 'ieee-p1363' }, signature))
    return refused('signature', 'its report is not signed by the key of its certificate')
  const problem = certificateProblem(chain, report)
  return problem === undefined ? undefined : refused('certificates', problem)
}

/** Whether the report is of this connection, and of a virtual machine that the policy trusts. */
function judge(report: SnpReport, product: Product, { data, policy }: ExpectedEvidence): Verdict {
  if (!report.reportData.equals(data))
    return refused('not this connection', 'its report is not about the key and the challenge of this connection')
  if (report.isDebuggable || report.isMigratable || report.vmpl !== 0) {
    const why = report.isDebuggable ? 'may be debugged' : report.isMigratable ? 'may be migrated' : `asks at VMPL ${report.vmpl}`
    return refused('unsafe guest', `its virtual machine ${why}`)
  }
  const tcb = tcbOf(report.reportedTcb, product)
  const least = policy.tcb[product]
  if (!least) return refused('old firmware', `its processor is a ${product}, for which the policy names no firmware`)
  const old = (Object.keys(least) as (keyof Tcb)[]).find((part) => (tcb[part] ?? 0) < (least as Tcb)[part]!)
  if (old !== undefined)
    return refused('old firmware', `its ${old} has version ${tcb[old]}, the policy needs ${(least as Tcb)[old]}`)
  const measurement = report.measurement.toString('hex')
  if (!policy.measurements.includes(measurement))
    return refused('unknown measurement', `the policy does not have its measurement ${measurement}`)
  return { kind: 'accepted', claims: { product, measurement, tcb } }
}
