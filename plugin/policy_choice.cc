#include "plugin/policy_choice.h"

#include "src/base/log.h"
#include "src/base/small_file.h"
#include "tuning/derive.h"

namespace mesh::plugin {

namespace {

std::string unreadable(Errc code) {
  switch (code) {
    case Errc::NotFound: return "it does not exist";
    case Errc::Exhausted:
      return fmt::format("it is larger than {} bytes", tuning::kProfileBytesMax);
    case Errc::InvalidArgument: return "it is not a regular file";
    default: return "it cannot be read";
  }
}

Result<tuning::Profile> read_profile(const std::string& file, std::string& why) {
  const Result<std::string> text = read_short_file(file, tuning::kProfileBytesMax);
  if (!text.ok()) why = unreadable(text.code());
  if (!text.ok()) return text.code();
  std::optional<tuning::Profile> profile = tuning::parse_profile(*text, why);
  if (!profile) return Errc::InvalidArgument;
  return *std::move(profile);
}

}  // namespace

Result<ProfileChoice> load_profile(const Settings& settings) {
  if (settings.profile == "none") return ProfileChoice{};
  std::string why;
  if (!settings.profile.empty()) {
    Result<tuning::Profile> profile = read_profile(settings.profile, why);
    if (profile.ok()) return ProfileChoice{*std::move(profile), settings.profile, true};
    LOG_WARN("NCCL_MESH_PROFILE {}: {}", settings.profile, why);
    return Errc::InvalidArgument;
  }
  for (const std::string& file : settings.profile_places) {
    Result<tuning::Profile> profile = read_profile(file, why);
    if (profile.code() == Errc::NotFound) continue;
    if (profile.ok()) return ProfileChoice{*std::move(profile), file, false};
    LOG_WARN("profile {} is ignored: {}", file, why);
    break;
  }
  return ProfileChoice{};
}

TransferPolicy choose_policy(Settings settings, const ProfileChoice& choice,
                             const FabricTraits& traits) {
  const tuning::Profile* profile = choice.profile ? &*choice.profile : nullptr;
  if (profile != nullptr) {
    const std::string why = tuning::mismatch(profile->measured, traits);
    if (!why.empty()) {
      // A user who has named the file expects that it is used, so that is worth a warning.
      MESH_LOG(choice.named ? LogLevel::Warn : LogLevel::Info, "profile {} is ignored: {}",
               choice.file, why);
      profile = nullptr;
    }
  }
  const tuning::Origins origins = tuning::apply_profile(profile, settings);
  const TransferPolicy policy = tuning::derive_policy(traits, settings);
  LOG_INFO("policy: {}", tuning::choice_text(policy, origins));
  if (profile != nullptr) {
    LOG_INFO("profile {}: measured {} on {}", choice.file, profile->measured.when,
             profile->measured.label);
  }
  return policy;
}

}  // namespace mesh::plugin
